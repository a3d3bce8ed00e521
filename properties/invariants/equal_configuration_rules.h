// Pairs of models that are equal by construction, each from the config of a drawn one. No reference
// is needed to judge them: a subject must answer both sides alike. To add one: a function that
// makes the pair, a line in one of the two tables (spellings: the same weights under another
// config; weights: another model that computes the same).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "properties/case.h"
#include "properties/model_draft.h"
#include "reference/layer_plan.h"

namespace kvconform {

/// What a rule may look at.
struct RuleInput {
  nlohmann::json config;
  WeightsRecipe recipe;
  ModelConfig parsed;
  int longest = 0;           ///< tokens that any row reaches
  bool takes_maps = false;   ///< the subject honours kv_sharing_map
  std::uint64_t choice = 0;  ///< for rules with more than one form
};

struct EqualPair {
  ModelDraft left, right;
  double scale = 1;           ///< the right logits are the left ones times this …
  std::optional<double> cap;  ///< … after this soft cap
};

struct EqualityRule {
  const char* sentence;  ///< "a window as long as the prompt is none"
  /// The same operations on the same numbers, only described in another way: the same bits are
  /// asked of a subject that promises any.
  bool same_arithmetic;
  bool same_layers;  ///< layer i of both sides is the same one
  bool (*applies)(const RuleInput&);
  EqualPair (*make)(const RuleInput&);
};

// Which models a rule applies to.
inline bool any_model(const RuleInput&) {
  return true;
}
inline bool gemma3n_only(const RuleInput& in) {
  return in.parsed.family == Family::gemma3n;
}
inline bool gemma4_only(const RuleInput& in) {
  return in.parsed.family == Family::gemma4;
}

/// Two configs, the weights of each drawn by the recipe.
inline EqualPair drawn_pair(const RuleInput& in, nlohmann::json left, nlohmann::json right) {
  return {ModelDraft::drawn(std::move(left), in.recipe),
          ModelDraft::drawn(std::move(right), in.recipe), 1, std::nullopt};
}

const std::vector<EqualityRule>& spelling_rules();
const std::vector<EqualityRule>& weight_rules();

}  // namespace kvconform
