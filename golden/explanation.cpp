// From the first waypoint that differs to a likely cause.
#include "golden/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "golden/second_opinion.h"
#include "reference/counted.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 5;

/// Two roundings of the same numbers are draws of the same noise: a factor of six between them was
/// the most seen on the oracle's models, and the smallest planted formula error is beyond 100.
constexpr double kRoundingFactor = 16;
/// Below this, both are as good as float32 gets.
constexpr double kRoundingFloor = 0x1p-22;

std::uint32_t float_bits(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

/// Compares one row; adds it to `found` if it differs.
void compare_row(const LogitsRow& row, const Logits& approved, const Logits& computed,
                 std::optional<GoldenDifference>& found, bool& differs) {
  for (int i = 0; i < approved.vocab; ++i) {
    const double a = approved.row(row.index)[i], c = computed.row(row.index)[i];
    if (float_bits(a) == float_bits(c)) continue;
    if (!found) {
      found.emplace();
      found->row = row;
      found->column = i;
      found->approved = a;
      found->computed = c;
    }
    const double d = std::abs(c - a);
    found->largest =
        std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(found->largest, d);
    differs = true;
  }
}

std::string shown(const json& value) {
  return value.is_null() ? "null" : value.dump();
}

/// "rms_norm_eps: 1e-06 was approved, 1e-05 is read now", the first few.
std::string config_changes(const std::string& approved, const std::string& now) {
  const json before = json::parse(approved).flatten(), after = json::parse(now).flatten();
  std::vector<std::string> lines;
  for (const auto& [field, value] : after.items()) {
    if (!before.contains(field)) {
      lines.push_back(fmt::format("{}: new, {}", field.substr(1), shown(value)));
    } else if (before.at(field) != value) {
      lines.push_back(fmt::format("{}: {} was approved, {} is read now", field.substr(1),
                                  shown(before.at(field)), shown(value)));
    }
  }
  for (const auto& [field, value] : before.items()) {
    if (!after.contains(field)) lines.push_back(fmt::format("{}: gone", field.substr(1)));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += "\n    " + lines[i];
  if (lines.size() > kShown) text += fmt::format("\n    and {} more", lines.size() - kShown);
  return text;
}

std::string weight_changes(const Waypoints& approved, const Waypoints& now) {
  if (approved.tensor_hashes.size() != now.tensor_hashes.size()) {
    return fmt::format(
        "{} {} approved, {} there now", counted(approved.tensor_hashes.size(), "tensor"),
        agreeing(approved.tensor_hashes.size(), "was", "were"),
        now.tensor_hashes.size() == 1 ? std::string("1 is")
                                      : fmt::format("{} are", now.tensor_hashes.size()));
  }
  std::size_t changed = 0, first = 0;
  for (std::size_t i = now.tensor_hashes.size(); i-- > 0;) {
    if (approved.tensor_hashes[i] == now.tensor_hashes[i]) continue;
    first = i;
    ++changed;
  }
  if (changed == 0) return "the names of the tensors are others";
  return fmt::format("{} of {} {}, the first is {}", changed,
                     counted(now.tensor_hashes.size(), "tensor"),
                     agreeing(changed, "is another", "are others"), now.tensor_names[first]);
}

/// What a stage computes, for people who look for what changed.
std::string stage_in_words(const std::string& part) {
  if (part == "embedding") return "the token embedding and its scale";
  if (part == "per_layer_inputs") return "the per-layer inputs (table, projection and its norm)";
  if (part == "streams") return "the AltUp streams before the first layer";
  if (part == "attention") return "attention (norms, projections, rotary embedding, mask, softmax)";
  if (part == "router") return "the expert router";
  if (part == "output") return "what follows attention (residuals, feed-forward, side inputs)";
  if (part == "final_norm") return "the final norm (after AltUp's streams were joined)";
  if (part == "logits") return "the language-model head (product, soft cap)";
  return part;
}

/// layer.3.attention → 3, attention
std::pair<int, std::string> layer_and_part(const std::string& stage) {
  if (!stage.starts_with("layer.")) return {-1, stage};
  const std::size_t dot = stage.find('.', 6);
  return {std::stoi(stage.substr(6, dot - 6)), stage.substr(dot + 1)};
}

const LayerPlan* layer_of(const Checkpoint& checkpoint, const Departure& departure) {
  const int layer = layer_and_part(departure.stage).first;
  return layer < 0 ? nullptr : &checkpoint.plan()[layer];
}

struct Opinion {
  double approved = 0, computed = 0;  ///< distance from the witness
};

GoldenCause judge_arithmetic(const Opinion& opinion, const GoldenDifference& difference) {
  const double tolerated = kRoundingFactor * std::max(opinion.approved, kRoundingFloor);
  if (opinion.computed <= tolerated) {
    const bool better =
        opinion.approved > kRoundingFactor * std::max(opinion.computed, kRoundingFloor);
    return better ? GoldenCause::approved_wrong : GoldenCause::rounding;
  }
  const bool only_later = difference.first_positions_seen && !difference.first_positions_differ;
  return only_later ? GoldenCause::position : GoldenCause::formula;
}

std::string opinion_in_words(GoldenCause cause, const Opinion& opinion) {
  const std::string distances = fmt::format(
      "distance from the witness: {:.2g} approved, {:.2g} now (share of the largest "
      "logit)",
      opinion.approved, opinion.computed);
  if (cause == GoldenCause::rounding) {
    return distances +
           ": equally right, so it is rounding: the order of a sum, a contraction into "
           "FMA, an elementary function";
  }
  if (cause == GoldenCause::approved_wrong) {
    return distances + ": what was approved looks wrong, what is computed now right";
  }
  return distances + ": what is computed now is wrong, more than rounding can be";
}

/// What the pattern of differing rows says.
std::string pattern_in_words(GoldenCause cause, const GoldenDifference& difference) {
  std::string text;
  if (cause == GoldenCause::position) {
    text +=
        "\n  rows at position 0 kept their bits: look at what depends on the position (rotary "
        "base and frequencies, mask, window, cached keys)";
  }
  if (cause == GoldenCause::formula) {
    text +=
        "\n  position 0 differs as well: look at formulas and constants (norm and its epsilon, "
        "scales, activation, soft cap)";
  }
  if (difference.uncached_seen && !difference.uncached_differ) {
    text += "\n  calls without a cache kept their bits: look at the cache";
  }
  return text;
}

/// Without stored logits the hashes still tell which call is the first to differ.
std::string first_call_in_words(const Recipe& recipe, const ApprovedNumerics& approved,
                                const CallLogits& computed) {
  for (std::size_t call = 0; call < std::min(approved.call_hashes.size(), computed.size());
       ++call) {
    const std::string hash = computed[call].positions ? hash_of({computed[call]}) : "";
    if (hash != approved.call_hashes[call]) {
      return fmt::format("first in call {} ({})", call, in_words(recipe.calls[call]));
    }
  }
  return fmt::format("{} {} approved, {} computed", counted(approved.call_hashes.size(), "call"),
                     agreeing(approved.call_hashes.size(), "was", "were"), computed.size());
}

Explanation explain_arithmetic(const Recipe& recipe, const Checkpoint& checkpoint,
                               const ApprovedNumerics& numerics, const Computation& computed) {
  Explanation explanation;
  const auto departure = first_departure(numerics.stages, computed.stages);
  if (departure) {
    explanation.text +=
        "\n  begins in " + in_words(recipe, layer_of(checkpoint, *departure), *departure);
  }
  if (!numerics.logits || !same_shapes(*numerics.logits, computed.logits)) {
    explanation.text += "\n  " + first_call_in_words(recipe, numerics, computed.logits);
    return explanation;
  }
  const auto difference = compare_logits(recipe, *numerics.logits, computed.logits);
  if (!difference) return explanation;
  const Opinion opinion = {distance_from_witness(recipe, checkpoint, *numerics.logits),
                           distance_from_witness(recipe, checkpoint, computed.logits)};
  explanation.cause = judge_arithmetic(opinion, *difference);
  explanation.text += "\n  " + opinion_in_words(explanation.cause, opinion);
  explanation.text += pattern_in_words(explanation.cause, *difference);
  explanation.text += "\n  " + in_words(recipe, *difference);
  return explanation;
}

}  // namespace

const char* to_string(GoldenCause cause) {
  switch (cause) {
    case GoldenCause::none:
      return "not known";
    case GoldenCause::tokens:
      return "the drawing of tokens (reference/random.h)";
    case GoldenCause::configuration:
      return "the configuration: a default or how it is read (reference/*_config.cpp)";
    case GoldenCause::weights:
      return "the weights: their generator (reference/random_weights.cpp) or a stored checkpoint";
    case GoldenCause::position:
      return "arithmetic: something that depends on the position";
    case GoldenCause::formula:
      return "arithmetic: a formula or a constant";
    case GoldenCause::rounding:
      return "arithmetic: rounding only";
    case GoldenCause::approved_wrong:
      return "arithmetic: a mistake was corrected";
  }
  return "?";
}

const char* short_name(GoldenCause cause) {
  switch (cause) {
    case GoldenCause::none:
      return "unknown";
    case GoldenCause::tokens:
      return "tokens";
    case GoldenCause::configuration:
      return "configuration";
    case GoldenCause::weights:
      return "weights";
    case GoldenCause::formula:
      return "formula";
    case GoldenCause::position:
      return "position";
    case GoldenCause::rounding:
      return "rounding";
    case GoldenCause::approved_wrong:
      return "corrected";
  }
  return "?";
}

bool same_shapes(const CallLogits& a, const CallLogits& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Logits& x, const Logits& y) {
    return x.positions == y.positions && x.vocab == y.vocab && x.values.size() == y.values.size();
  });
}

std::optional<GoldenDifference> compare_logits(const Recipe& recipe, const CallLogits& approved,
                                               const CallLogits& computed) {
  std::optional<GoldenDifference> found;
  bool first_seen = false, first_differ = false, uncached_seen = false, uncached_differ = false;
  int rows = 0, calls = 0, last_call = -1;
  for (const LogitsRow& row : logits_rows(recipe)) {
    bool differs = false;
    compare_row(row, approved[row.call], computed[row.call], found, differs);
    first_seen |= row.position == 0;
    uncached_seen |= !row.cached;
    if (!differs) continue;
    first_differ |= row.position == 0;
    uncached_differ |= !row.cached;
    rows += 1;
    calls += row.call != last_call;
    last_call = row.call;
  }
  if (!found) return found;
  found->rows = rows;
  found->calls = calls;
  found->first_positions_seen = first_seen;
  found->first_positions_differ = first_differ;
  found->uncached_seen = uncached_seen;
  found->uncached_differ = uncached_differ;
  return found;
}

std::optional<Departure> first_departure(const StageHashes& approved, const StageHashes& computed) {
  const std::size_t calls = std::min(approved.calls.size(), computed.calls.size());
  for (std::size_t call = 0; call < calls; ++call) {
    const auto &before = approved.calls[call], &now = computed.calls[call];
    const std::size_t stages = std::min({before.size(), now.size(), approved.stages.size()});
    for (std::size_t i = 0; i < stages; ++i) {
      if (before[i] != now[i]) return Departure{int(call), approved.stages[i]};
    }
  }
  return std::nullopt;
}

Explanation explain(const Recipe& recipe, const Checkpoint& checkpoint, const Waypoints& now,
                    const ApprovedGolden& approved, const ApprovedNumerics& numerics,
                    const Computation& computed) {
  Explanation explanation;
  if (approved.way.calls != now.calls) {
    explanation.cause = GoldenCause::tokens;
    explanation.text = "\n  the recipe is the approved one, yet it draws other tokens";
  } else if (approved.way.config != now.config) {
    explanation.cause = GoldenCause::configuration;
    explanation.text =
        "\n  the recipe is the approved one, yet its configuration means something "
        "else:" +
        config_changes(approved.way.config, now.config);
  } else if (approved.way.weights_sha256 != now.weights_sha256) {
    explanation.cause = GoldenCause::weights;
    explanation.text = "\n  the configuration is the approved one, the weights are not: " +
                       weight_changes(approved.way, now);
  } else {
    explanation = explain_arithmetic(recipe, checkpoint, numerics, computed);
    explanation.text =
        "\n  tokens, configuration and weights are the approved ones" + explanation.text;
  }
  explanation.text =
      fmt::format("\n  likely cause: {}{}", to_string(explanation.cause), explanation.text);
  return explanation;
}

std::string in_words(const Recipe& recipe, const LogitsRow& row) {
  return fmt::format("call {} ({}), row {}, position {}", row.call,
                     in_words(recipe.calls[row.call]), row.batch_row, row.position);
}

std::string in_words(const Recipe& recipe, const LayerPlan* layer, const Departure& departure) {
  const auto [number, part] = layer_and_part(departure.stage);
  const std::string where =
      layer == nullptr ? ""
                       : fmt::format("layer {} ({}, keys of layer {}, rotary base {:g}): ", number,
                                     to_string(layer->type), layer->owner, layer->rope.theta);
  return fmt::format("call {} ({}), {}{}", departure.call, in_words(recipe.calls[departure.call]),
                     where, stage_in_words(part));
}

std::string in_words(const Recipe& recipe, const GoldenDifference& d) {
  return fmt::format(
      "first in {}, token {}: approved {:.9g}, computed {:.9g}\n"
      "  {} of {} {}, by at most {:.3g}",
      in_words(recipe, d.row), d.column, d.approved, d.computed, counted(d.rows, "row"),
      counted(d.calls, "call"), agreeing(d.rows, "differs", "differ"), d.largest);
}

}  // namespace kvconform
