// Every valid layout of sharing is accepted and computed; every invalid one is refused when it is
// loaded, and never computed in silence.
//
// Source: model-spec.md, 1.4 and section 5; subject protocol, `kv_sharing_map`; vllm-gaudi #1601,
// tt-metal #46247 (the first shared layer taken from a truncated depth). Needs: score; sharing_map
// for layouts given by a map. The case chooses the layout. Models to refuse come with every
// projection a lenient subject could ask for, so that a refusal is for the layout.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "properties/case_choice.h"
#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/model_draft.h"
#include "properties/transcript_comparison.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Map = std::vector<int>;

/// A model without sharing, on which layouts are put.
struct Ground {
  json config;
  ModelConfig parsed;
  std::uint64_t choice = 0;

  int layers() const { return parsed.num_layers; }
  AttentionType type(int layer) const { return parsed.layer_types[layer]; }
  Map identity() const {
    Map map(layers());
    std::iota(map.begin(), map.end(), 0);
    return map;
  }
  /// Pairs (reader, other) of layers for which `fits` holds; one of them by choice, if there are.
  template <class Fits>
  std::optional<std::pair<int, int>> pair(Fits fits) const {
    std::vector<std::pair<int, int>> found;
    for (int reader = 0; reader < layers(); ++reader) {
      for (int other = 0; other < layers(); ++other) {
        if (fits(reader, other)) found.emplace_back(reader, other);
      }
    }
    if (found.empty()) return std::nullopt;
    return found[choice % found.size()];
  }
};

/// The config with a layout; nothing where the model has no room for it.
using Laid = std::optional<json>;

Laid with_map(const Ground& ground, const json& map) {
  json config = ground.config;
  config["kv_sharing_map"] = map;
  return config;
}

Laid with_tail(const Ground& ground, const json& shared) {
  json config = ground.config;
  config["num_kv_shared_layers"] = shared;
  return config;
}

// ---- valid ----

/// All layers of one type, so that a tail of any length has its owner.
Laid uniform_tail(const Ground& ground, int shared) {
  json config = ground.config;
  config["layer_types"] = std::vector<std::string>(ground.layers(), "full_attention");
  config["num_kv_shared_layers"] = shared;
  return config;
}

Laid nothing_shared(const Ground& ground) {
  return with_tail(ground, 0);
}
Laid last_layer_shared(const Ground& ground) {
  return uniform_tail(ground, 1);
}
Laid all_but_one_shared(const Ground& ground) {
  return uniform_tail(ground, ground.layers() - 1);
}
Laid identity_map(const Ground& ground) {
  return with_map(ground, ground.identity());
}

/// Every layer whose owner `owner_of` gives an earlier one of its type reads it.
template <class OwnerOf>
Laid mapped(const Ground& ground, OwnerOf owner_of) {
  Map map = ground.identity();
  for (int i = 0; i < ground.layers(); ++i) {
    const int owner = owner_of(i, map);
    if (owner < i && map[owner] == owner && ground.type(owner) == ground.type(i)) map[i] = owner;
  }
  return with_map(ground, map);
}

Laid groups_of_two(const Ground& ground) {
  return mapped(ground, [](int i, const Map&) { return i - i % 2; });
}
Laid groups_of_three(const Ground& ground) {
  return mapped(ground, [](int i, const Map&) { return i - i % 3; });
}
Laid all_from_the_first_of_the_type(const Ground& ground) {
  return mapped(ground, [&](int i, const Map&) {
    int owner = 0;
    while (ground.type(owner) != ground.type(i)) ++owner;
    return owner;
  });
}
Laid second_last_of_the_type(const Ground& ground) {
  return mapped(ground, [&](int i, const Map& map) {
    std::vector<int> owners;
    for (int j = 0; j < i; ++j) {
      if (map[j] == j && ground.type(j) == ground.type(i)) owners.push_back(j);
    }
    return owners.size() < 2 ? i : owners[owners.size() - 2];
  });
}

// ---- to be refused ----

Laid all_shared(const Ground& ground) {
  return with_tail(ground, ground.layers());
}
Laid more_shared_than_layers(const Ground& ground) {
  return with_tail(ground, ground.layers() + 1);
}
Laid fewer_than_none_shared(const Ground& ground) {
  return with_tail(ground, -1);
}

Laid no_owner_of_the_type(const Ground& ground) {
  const int layers = ground.layers();
  if (layers < 2) return std::nullopt;
  json config = ground.config;
  std::vector<std::string> types(layers, "sliding_attention");
  types.back() = "full_attention";
  config["layer_types"] = types;
  config["num_kv_shared_layers"] = 1;
  return config;
}

Laid one_changed(const Ground& ground, int reader, int owner) {
  Map map = ground.identity();
  map[reader] = owner;
  return with_map(ground, map);
}

Laid owner_after_its_reader(const Ground& ground) {
  const auto pair =
      ground.pair([&](int i, int j) { return j > i && ground.type(i) == ground.type(j); });
  return pair ? one_changed(ground, pair->first, pair->second) : std::nullopt;
}

Laid owner_of_the_other_type(const Ground& ground) {
  const auto pair =
      ground.pair([&](int i, int j) { return j < i && ground.type(i) != ground.type(j); });
  return pair ? one_changed(ground, pair->first, pair->second) : std::nullopt;
}

Laid chain(const Ground& ground) {
  const auto pair = ground.pair([&](int i, int j) {
    return j < i && j > 0 && ground.type(i) == ground.type(j) && ground.type(0) == ground.type(j);
  });
  if (!pair) return std::nullopt;
  Map map = ground.identity();
  map[pair->first] = pair->second;
  map[pair->second] = 0;
  return with_map(ground, map);
}

/// Two full layers of Gemma 4 with unlike heads.
Laid owner_with_other_heads(const Ground& ground, const char* field, int factor) {
  const auto pair = ground.pair([&](int i, int j) {
    return j < i && ground.type(i) == AttentionType::full && ground.type(j) == AttentionType::full;
  });
  if (!pair || ground.parsed.family != Family::gemma4) return std::nullopt;
  Laid laid = one_changed(ground, pair->first, pair->second);
  json layers = json::object();
  for (int i = 0; i < ground.layers(); ++i) {
    if (ground.type(i) != AttentionType::full) continue;
    layers[std::to_string(i)] = {{"head_dim", ground.parsed.head_dims[i]},
                                 {"num_key_value_heads", ground.parsed.key_value_heads[i]}};
  }
  json& own = layers[std::to_string(pair->first)][field];
  own = own.get<int>() * factor;
  (*laid)["per_layer_config"] = layers;
  return laid;
}

Laid owner_with_another_head_size(const Ground& ground) {
  return owner_with_other_heads(ground, "head_dim", 2);
}
Laid owner_with_more_heads(const Ground& ground) {
  if (ground.parsed.num_attention_heads % (2 * ground.parsed.key_value_heads.back()) != 0) {
    return std::nullopt;
  }
  return owner_with_other_heads(ground, "num_key_value_heads", 2);
}

Laid map_one_short(const Ground& ground) {
  Map map = ground.identity();
  map.pop_back();
  return with_map(ground, map);
}
Laid map_one_long(const Ground& ground) {
  Map map = ground.identity();
  map.push_back(0);
  return with_map(ground, map);
}
Laid negative_owner(const Ground& ground) {
  return one_changed(ground, ground.layers() - 1, -1);
}
Laid owner_beyond_the_last(const Ground& ground) {
  return one_changed(ground, ground.layers() - 1, ground.layers());
}

struct Layout {
  const char* description;
  bool map, valid;
  Laid (*lay)(const Ground&);
};

constexpr Layout kLayouts[] = {
    {"nothing is shared", false, true, nothing_shared},
    {"the last layer is shared", false, true, last_layer_shared},
    {"all layers but one are shared", false, true, all_but_one_shared},
    {"the map names each layer itself", true, true, identity_map},
    {"groups of two layers share", true, true, groups_of_two},
    {"groups of three layers share", true, true, groups_of_three},
    {"all layers read the first of their type", true, true, all_from_the_first_of_the_type},
    {"layers read the owner before the last", true, true, second_last_of_the_type},
    {"all layers are shared", false, false, all_shared},
    {"more layers are shared than there are", false, false, more_shared_than_layers},
    {"fewer layers than none are shared", false, false, fewer_than_none_shared},
    {"a shared layer has a type that no owner has", false, false, no_owner_of_the_type},
    {"a layer reads a later one", true, false, owner_after_its_reader},
    {"a layer reads one of the other type", true, false, owner_of_the_other_type},
    {"a layer reads one that reads another", true, false, chain},
    {"a layer reads one with another head size", true, false, owner_with_another_head_size},
    {"a layer reads one with another number of heads", true, false, owner_with_more_heads},
    {"the map is one entry short", true, false, map_one_short},
    {"the map is one entry long", true, false, map_one_long},
    {"the map names a negative layer", true, false, negative_owner},
    {"the map names a layer that does not exist", true, false, owner_beyond_the_last}};

/// The drawn model with nothing shared and widths that do not depend on who shares.
Ground ground_of(const Case& test_case) {
  json config = json::parse(test_case.model.config_text);
  config.erase("kv_sharing_map");
  config["num_kv_shared_layers"] = 0;
  if (config.contains("use_double_wide_mlp")) config["use_double_wide_mlp"] = false;
  Ground ground{config, parse_model_config(config), choice_of(test_case, "place")};
  return ground;
}

class Topology : public GeneratedProperty {
 public:
  const char* name() const override { return "topology"; }
  const char* sentence() const override {
    return "Valid layouts of sharing are computed as planned; invalid ones are refused, never "
           "computed in silence.";
  }
  const char* source() const override {
    return "model-spec.md, 1.4 and 5; vllm-gaudi #1601, tt-metal #46247";
  }
  std::vector<std::string> needs() const override { return {"score"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      if (!is_generated(test_case)) {
        return Verdict{VerdictKind::not_applicable, "only models drawn here are laid out anew",
                       std::nullopt, 0, ""};
      }
      const Ground ground = ground_of(test_case);
      const bool maps = judgement.subject.info().capabilities.count("sharing_map") > 0;
      const Layout* layout = choose_fitting(kLayouts, test_case, "layout", [&](const Layout& l) {
        return (maps || !l.map) && l.lay(ground).has_value();
      });
      const json laid = *layout->lay(ground);
      return layout->valid ? judge_valid(test_case, judgement, config, *layout, laid)
                           : judge_invalid(test_case, judgement, *layout, ground, laid);
    });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    Call call;
    call.kind = Call::Kind::score;
    const int length = draw_length(draw, bounds);
    call.tokens = {draw_tokens(draw, bounds, length)};
    return {call};
  }

 private:
  /// The truth of the layout is what it must compute.
  static Verdict judge_valid(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                             const Layout& layout, const json& laid) {
    const auto source = ModelDraft::drawn(laid, test_case.model.weights).source();
    Transcript seen;
    try {
      const LoadedModel model(judgement.subject, *source);
      seen = run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, false);
    } catch (const SubjectRefusal& e) {
      if (e.kind == SubjectRefusal::Kind::unsupported) throw;
      return differs(layout, fmt::format("a valid layout is refused: {}", e.what()),
                     "the sharing plan refuses more than it must");
    }
    Verdict verdict = judge_against_truth(test_case, judgement, layout, *source, seen);
    if (verdict.kind == VerdictKind::differs) {
      verdict.first_difference = locate_in(*source, test_case, judgement);
      verdict.models = {laid.dump()};
    }
    return verdict;
  }

  static Verdict judge_against_truth(const Case& test_case, Judgement& judgement,
                                     const Layout& layout, const ModelSource& source,
                                     const Transcript& seen) {
    Gauge gauge(source, judgement.subject.info().dtype);
    gauge.prepare(longest_histories(test_case.calls));
    Verdict verdict;
    for_each_position(seen, [&](const At& at) {
      if (verdict.kind != VerdictKind::conforms) return;
      const auto want = gauge.truth(at.span.history, at.token);
      const auto row = gauge.compare(at.span.history, at.token, want, at.logits(), 1);
      if (!row || row->within) return;
      verdict = differs(layout,
                        fmt::format("token {} is {:.3g} budgets away from the model's", at.token,
                                    row->budget_used),
                        "consumers read another layer than the plan names (`kvconform plan`)");
    });
    return verdict;
  }

  static Verdict judge_invalid(const Case& test_case, Judgement& judgement, const Layout& layout,
                               const Ground& ground, const json& laid) {
    TensorTable tensors = ModelDraft::drawn(ground.config, test_case.model.weights).tensors();
    const auto source = model_to_refuse(laid, std::move(tensors));
    try {
      const LoadedModel model(judgement.subject, *source);
      return differs(layout, "an invalid layout is " + what_follows(test_case, judgement, model),
                     "the sharing plan is not checked when a model is loaded");
    } catch (const SubjectRefusal&) {
      return {};
    }
  }

  /// What an accepted model is good for.
  static std::string what_follows(const Case& test_case, Judgement& judgement,
                                  const LoadedModel& model) {
    try {
      judgement.subject.score(model.id(), test_case.calls[0].tokens, false);
      return "loaded and computed";
    } catch (const std::exception& e) {
      return fmt::format("loaded, and fails later: {}", e.what());
    }
  }

  static Verdict differs(const Layout& layout, const std::string& what, const char* cause) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.message = fmt::format("where {}: {}", layout.description, what);
    verdict.cause = cause;
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> topology() {
  return std::make_unique<Topology>();
}

}  // namespace kvconform
