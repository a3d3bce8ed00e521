// The conventions as changed models, and telling which one a subject follows.
#include "properties/rotary_conventions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/model_draft.h"
#include "properties/transcript_comparison.h"

namespace kvconform {
namespace {

using nlohmann::json;

/// Dimension i of a head becomes the old dimension order[i].
using Order = std::vector<int>;

/// A rotation of (i, i + D/2) turns what an engine with adjacent pairs turns.
Order adjacent_pairs(int dim) {
  Order order;
  for (int i = 0; i < dim / 2; ++i) order.push_back(2 * i);
  for (int i = 0; i < dim / 2; ++i) order.push_back(2 * i + 1);
  return order;
}

/// Partners change places: the same as turning the other way.
Order swapped_halves(int dim) {
  Order order;
  for (int i = 0; i < dim; ++i) order.push_back((i + dim / 2) % dim);
  return order;
}

int rotated_pairs(const LayerPlan& layer) {
  return static_cast<int>(layer.rope.partial_rotary_factor * layer.head_dim) / 2;
}

/// The first 2r dimensions as a head of their own, pairs (i, i + r).
Order leading_block(int dim, int pairs) {
  Order order(dim, -1);
  for (int i = 0; i < pairs; ++i) order[i] = i, order[i + dim / 2] = i + pairs;
  int next = 2 * pairs;
  for (int& place : order) {
    if (place < 0) place = next++;
  }
  return order;
}

std::vector<int> in_every_head(const Order& order, int heads) {
  const int dim = static_cast<int>(order.size());
  std::vector<int> rows;
  for (int head = 0; head < heads; ++head) {
    for (int d : order) rows.push_back(head * dim + d);
  }
  return rows;
}

void reorder_layer(ModelDraft& draft, const LayerPlan& layer, const Order& order) {
  const auto name = [&](const char* part) { return layer_tensor(layer.layer, part); };
  const std::vector<int> queries = in_every_head(order, layer.query_heads);
  draft.take_rows(name("self_attn.q_proj.weight"), queries);
  draft.take_rows(name("self_attn.q_proj.bias"), queries);
  draft.take_rows(name("self_attn.q_norm.weight"), order);
  // Values taken from keys come out in the new order as well; o_proj must expect them so.
  if (layer.values_from_keys) draft.take_columns(name("self_attn.o_proj.weight"), queries);
  if (!layer.owns_keys()) return;
  const std::vector<int> keys = in_every_head(order, layer.key_value_heads);
  draft.take_rows(name("self_attn.k_proj.weight"), keys);
  draft.take_rows(name("self_attn.k_proj.bias"), keys);
  draft.take_rows(name("self_attn.k_norm.weight"), order);
}

enum class Layers { all, full, sliding };

bool includes(Layers layers, const LayerPlan& layer) {
  if (layers == Layers::all) return true;
  return (layer.type == AttentionType::full) == (layers == Layers::full);
}

using OrderOf = std::function<Order(const LayerPlan&)>;

bool reorder(ModelDraft& draft, Layers layers, const OrderOf& order_of) {
  const std::vector<LayerPlan> plan = draft.plan();
  for (const LayerPlan& layer : plan) {
    if (includes(layers, layer)) reorder_layer(draft, layer, order_of(layer));
  }
  return true;
}

bool pairs_adjacent(ModelDraft& draft, Layers layers) {
  return reorder(draft, layers, [](const LayerPlan& l) { return adjacent_pairs(l.head_dim); });
}

bool turned_backwards(ModelDraft& draft, Layers layers) {
  return reorder(draft, layers, [](const LayerPlan& l) { return swapped_halves(l.head_dim); });
}

json rope_json(const Rope& rope) {
  const char* kind = rope.kind == Rope::Kind::plain    ? "default"
                     : rope.kind == Rope::Kind::linear ? "linear"
                                                       : "proportional";
  json entry = {{"rope_type", kind}, {"rope_theta", rope.theta}};
  if (rope.kind != Rope::Kind::plain) entry["factor"] = rope.factor;
  if (rope.kind == Rope::Kind::proportional) {
    entry["partial_rotary_factor"] = rope.partial_rotary_factor;
  }
  return entry;
}

/// False where the model already has this rotation.
bool set_ropes(ModelDraft& draft, const Rope& full, const Rope& sliding) {
  const ModelConfig old = draft.parsed();
  if (full == old.full_rope && sliding == old.sliding_rope) return false;
  for (const char* field : {"rope_theta", "rope_local_base_freq", "rope_scaling"}) {
    draft.config().erase(field);
  }
  draft.config()["rope_parameters"] = {{"full_attention", rope_json(full)},
                                       {"sliding_attention", rope_json(sliding)}};
  return true;
}

/// The same change for the layers meant.
bool change_ropes(ModelDraft& draft, Layers layers, const std::function<Rope(Rope)>& change) {
  const ModelConfig old = draft.parsed();
  return set_ropes(draft, layers == Layers::sliding ? old.full_rope : change(old.full_rope),
                   layers == Layers::full ? old.sliding_rope : change(old.sliding_rope));
}

bool not_rotated(ModelDraft& draft, Layers layers) {
  return change_ropes(draft, layers, [](Rope) {
    return Rope{Rope::Kind::proportional, 10000, 1, 0};  // no pair turns
  });
}

bool base_of_the_other_type(ModelDraft& draft, Layers layers) {
  const ModelConfig old = draft.parsed();
  Rope full = old.full_rope, sliding = old.sliding_rope;
  if (layers != Layers::sliding) full.theta = old.sliding_rope.theta;
  if (layers != Layers::full) sliding.theta = old.full_rope.theta;
  return set_ropes(draft, full, sliding);
}

bool rotation_of_the_other_type(ModelDraft& draft, Layers layers) {
  const ModelConfig old = draft.parsed();
  return set_ropes(draft, layers == Layers::sliding ? old.full_rope : old.sliding_rope,
                   layers == Layers::full ? old.sliding_rope : old.full_rope);
}

bool factor_ignored(ModelDraft& draft, Layers layers) {
  return change_ropes(draft, layers, [](Rope rope) {
    if (rope.kind == Rope::Kind::linear) rope.kind = Rope::Kind::plain;
    rope.factor = 1;
    return rope;
  });
}

bool share_ignored(ModelDraft& draft, Layers layers) {
  return change_ropes(draft, layers, [](Rope rope) {
    rope.partial_rotary_factor = 1;
    return rope;
  });
}

bool is_partial(const Rope& rope) {
  return rope.kind == Rope::Kind::proportional && rope.partial_rotary_factor < 1;
}

/// Full layers alone are partial in these families.
const LayerPlan* partial_layer(const std::vector<LayerPlan>& plan) {
  const auto found =
      std::find_if(plan.begin(), plan.end(), [](const LayerPlan& l) { return is_partial(l.rope); });
  return found == plan.end() ? nullptr : &*found;
}

bool block_of_its_own(ModelDraft& draft, Layers) {
  const std::vector<LayerPlan> plan = draft.plan();
  const LayerPlan* partial = partial_layer(plan);
  if (partial == nullptr || rotated_pairs(*partial) == 0) return false;
  const double stretch = static_cast<double>(partial->head_dim) / (2 * rotated_pairs(*partial));
  reorder(draft, Layers::full,
          [](const LayerPlan& l) { return leading_block(l.head_dim, rotated_pairs(l)); });
  Rope rope = partial->rope;
  rope.theta = std::pow(rope.theta, stretch);  // exponents −2i / 2r instead of −2i / D
  return set_ropes(draft, rope, draft.parsed().sliding_rope);
}

bool one_pair_more(ModelDraft& draft, Layers) {
  const std::vector<LayerPlan> plan = draft.plan();
  const LayerPlan* partial = partial_layer(plan);
  if (partial == nullptr || 2 * (rotated_pairs(*partial) + 1) > partial->head_dim) return false;
  Rope rope = partial->rope;
  rope.partial_rotary_factor =
      static_cast<double>(2 * (rotated_pairs(*partial) + 1)) / partial->head_dim;
  return set_ropes(draft, rope, draft.parsed().sliding_rope);
}

struct Convention {
  const char* name;
  Layers layers;
  bool (*put)(ModelDraft&, Layers);  ///< false where the model has no room for it
};

/// The more special ones first: on a small model several may come to the same.
constexpr Convention kConventions[] = {
    {"pairs (2i, 2i + 1) are rotated instead of (i, i + D/2)", Layers::all, pairs_adjacent},
    {"pairs (2i, 2i + 1) are rotated instead of (i, i + D/2), in full layers", Layers::full,
     pairs_adjacent},
    {"pairs (2i, 2i + 1) are rotated instead of (i, i + D/2), in sliding layers", Layers::sliding,
     pairs_adjacent},
    {"pairs are rotated backwards", Layers::all, turned_backwards},
    {"the rotated part is a block of its own, with pairs (i, i + r)", Layers::full,
     block_of_its_own},
    {"one pair more is rotated than partial_rotary_factor says", Layers::full, one_pair_more},
    {"partial_rotary_factor is ignored", Layers::all, share_ignored},
    {"the rotary factor of full layers is ignored", Layers::full, factor_ignored},
    {"the rotary factor of sliding layers is ignored", Layers::sliding, factor_ignored},
    {"the rotary factor is ignored", Layers::all, factor_ignored},
    {"nothing is rotated", Layers::all, not_rotated},
    {"full layers are not rotated", Layers::full, not_rotated},
    {"sliding layers are not rotated", Layers::sliding, not_rotated},
    {"full layers are rotated by the base of sliding ones", Layers::full, base_of_the_other_type},
    {"sliding layers are rotated by the base of full ones", Layers::sliding,
     base_of_the_other_type},
    {"full and sliding layers have exchanged their bases", Layers::all, base_of_the_other_type},
    {"full layers are rotated as sliding ones", Layers::full, rotation_of_the_other_type},
    {"sliding layers are rotated as full ones", Layers::sliding, rotation_of_the_other_type}};

std::unique_ptr<ModelSource> changed(const ModelSource& source, const Convention& convention) {
  ModelDraft draft = ModelDraft::of(*source.checkpoint());
  return convention.put(draft, convention.layers) ? draft.source() : nullptr;
}

AttentionPath path_of(const Call& call) {
  if (call.kind == Call::Kind::score) return AttentionPath::score;
  const bool single = std::all_of(call.tokens.begin(), call.tokens.end(),
                                  [](const auto& row) { return row.size() <= 1; });
  return single ? AttentionPath::one_token : AttentionPath::several_tokens;
}

constexpr AttentionPath kPaths[] = {AttentionPath::score, AttentionPath::several_tokens,
                                    AttentionPath::one_token};

const char* place_name(AttentionPath path) {
  switch (path) {
    case AttentionPath::score:
      return "without a cache";
    case AttentionPath::several_tokens:
      return "in calls of several tokens";
    default:
      return "in calls of one token";
  }
}

void feed(const std::vector<int>& prompt, std::size_t chunk, int session,
          std::vector<Call>& calls) {
  Call open;
  open.kind = Call::Kind::open;
  open.session = session;
  open.capacity = static_cast<int>(prompt.size());
  calls.push_back(open);
  for (std::size_t fed = 0; fed < prompt.size(); fed += chunk) {
    Call extend;
    extend.session = session;
    const auto begin = prompt.begin() + static_cast<std::ptrdiff_t>(fed);
    extend.tokens = {{begin, begin + static_cast<std::ptrdiff_t>(chunk)}};
    calls.push_back(extend);
  }
}

/// How the positions of one path compare with the truth of a model.
struct PathOutcome {
  int compared = 0;
  std::optional<Difference> worst;  ///< of those outside the budget
};

class Explaining {
 public:
  Explaining(const Case& test_case, Judgement& judgement, const Transcript& seen)
      : test_case_(test_case), judgement_(judgement), seen_(seen) {}

  RotaryFinding find() {
    Gauge gauge(judgement_.model, judgement_.subject.info().dtype, &judgement_.yardstick);
    gauge.prepare(longest_histories(test_case_.calls));
    std::vector<AttentionPath> wrong;
    for (AttentionPath path : kPaths) {
      const PathOutcome outcome = compare(path, gauge);
      paths_ += outcome.compared > 0;
      if (!outcome.worst) continue;
      wrong.push_back(path);
      if (!worst_ || outcome.worst->budget_used > worst_->budget_used) worst_ = outcome.worst;
    }
    if (wrong.empty()) return {};
    for (const Convention& convention : kConventions) {
      const std::vector<AttentionPath> explained = paths_explained(convention, wrong);
      if (!explained.empty()) return finding(convention, explained);
    }
    return {"", "", *worst_};
  }

 private:
  PathOutcome compare(AttentionPath path, Gauge& gauge) {
    PathOutcome outcome;
    for_each_position(seen_, [&](const At& at) {
      if (path_of(test_case_.calls[at.record.call]) != path) return;
      const auto want = gauge.truth(at.span.history, at.token);
      const auto row = gauge.compare(at.span.history, at.token, want, at.logits(), 1);
      if (!row) return;
      ++outcome.compared;
      if (row->within) return;
      if (outcome.worst && !(row->budget_used > outcome.worst->budget_used)) return;
      outcome.worst = worst_at(at, *row, want);
    });
    return outcome;
  }

  std::vector<AttentionPath> paths_explained(const Convention& convention,
                                             const std::vector<AttentionPath>& wrong) {
    const auto source = changed(judgement_.model, convention);
    if (!source || far_off(*source)) return {};
    Gauge gauge(*source, judgement_.subject.info().dtype);
    gauge.prepare(longest_histories(test_case_.calls));
    std::vector<AttentionPath> explained;
    for (AttentionPath path : wrong) {
      const PathOutcome outcome = compare(path, gauge);
      if (outcome.compared > 0 && !outcome.worst) explained.push_back(path);
    }
    return explained;
  }

  /// Spares the noise probe: an explanation comes much nearer than the model where that is worst.
  bool far_off(const ModelSource& source) {
    Gauge gauge(source, judgement_.subject.info().dtype);
    bool far = false;
    for_each_position(seen_, [&](const At& at) {
      const bool here =
          at.record.call == worst_->call && at.span.row == worst_->row && at.token == worst_->token;
      if (!here || worst_->dimension < 0) return;
      const double want = gauge.truth(at.span.history, at.token)[worst_->dimension];
      far = !(std::abs(want - worst_->seen) < 0.25 * std::abs(worst_->expected - worst_->seen));
    });
    return far;
  }

  RotaryFinding finding(const Convention& convention,
                        const std::vector<AttentionPath>& explained) const {
    std::string where;
    for (AttentionPath path : explained) {
      where += (where.empty() ? "" : " and ") + std::string(place_name(path));
    }
    if (paths_ > 1 && static_cast<int>(explained.size()) == paths_) where = "everywhere";
    return {convention.name, where, *worst_};
  }

  const Case& test_case_;
  Judgement& judgement_;
  const Transcript& seen_;
  int paths_ = 0;  ///< with positions that could be compared
  std::optional<Difference> worst_;
};

}  // namespace

std::vector<std::string> rotary_conventions() {
  std::vector<std::string> names;
  for (const Convention& convention : kConventions) names.push_back(convention.name);
  return names;
}

std::unique_ptr<ModelSource> with_rotary_convention(const ModelSource& source,
                                                    const std::string& convention) {
  for (const Convention& c : kConventions) {
    if (convention == c.name) return changed(source, c);
  }
  return nullptr;
}

std::vector<Call> calls_through(const std::vector<AttentionPath>& paths,
                                const std::vector<int>& prompt) {
  std::vector<Call> calls;
  for (AttentionPath path : paths) {
    if (path != AttentionPath::score) {
      const bool at_once = path == AttentionPath::several_tokens;
      feed(prompt, at_once ? prompt.size() : 1, at_once ? 0 : 1, calls);
      continue;
    }
    Call score;
    score.kind = Call::Kind::score;
    score.tokens = {prompt};
    calls.push_back(score);
  }
  return calls;
}

std::string rotary_cause(const Case& test_case, Judgement& judgement) {
  const ModelConfig& config = judgement.model.checkpoint()->config();
  const auto& capabilities = judgement.subject.info().capabilities;
  std::vector<AttentionPath> paths;
  if (capabilities.count("score")) paths.push_back(AttentionPath::score);
  if (capabilities.count("cache") && !config.bidirectional_all) {
    paths.insert(paths.end(), {AttentionPath::several_tokens, AttentionPath::one_token});
  }
  std::vector<int> prompt;
  for (const TokenHistory& history : longest_histories(test_case.calls)) {
    if (history.tokens.size() > prompt.size()) prompt = history.tokens;
  }
  Case probe = test_case;
  probe.calls = calls_through(paths, prompt);
  try {
    const LoadedModel model(judgement.subject, judgement.model);
    const Transcript seen =
        run_calls(judgement.subject, model.id(), probe.calls, config.vocab_size, false);
    const RotaryFinding found = explain_by_rotary_convention(probe, judgement, seen);
    return found.convention.empty() ? "" : found.convention + ", " + found.where;
  } catch (const SubjectRefusal&) {
    return "";  // the cause of a failure is no place for another one
  } catch (const SubjectBroken&) {
    return "";  // nor for a crash: the probe asks for paths that the case does not use
  }
}

RotaryFinding explain_by_rotary_convention(const Case& test_case, Judgement& judgement,
                                           const Transcript& seen) {
  return Explaining(test_case, judgement, seen).find();
}

}  // namespace kvconform
