// Recipes: what each golden is computed from. A recipe is data in golden/recipes.json: a model
// (drawn from a seed, or a checkpoint folder in golden/) and the calls made on it. To add one, add
// an entry there, then `kvconform golden record NAME` and `golden approve NAME`; golden/README.md
// explains the fields. Errors: KV3002 (unreadable), KV3004 (no such recipe), KV3005 (a recipe that
// cannot be followed).
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reference/checkpoint.h"
#include "reference/random_weights.h"

namespace kvconform {

struct GoldenCall {
  enum class Kind {
    score,   ///< logits of `tokens` with no cache anywhere
    open,    ///< a fresh session; `length` is its capacity: all tokens extended on it
    extend,  ///< logits of `tokens` on the session
    rewind   ///< cuts the session back to `length` tokens
  };
  Kind kind = Kind::score;
  std::vector<int> tokens;
  int length = 0;
};

const char* to_string(GoldenCall::Kind kind);

struct Recipe {
  std::string name, about;
  std::filesystem::path checkpoint;              ///< folder relative to golden/; empty: drawn
  std::shared_ptr<const nlohmann::json> config;  ///< of a drawn model
  WeightsRecipe weights;                         ///< of a drawn model
  std::vector<GoldenCall> calls;
  /// SHA-256 of all of the above but `about`: a golden approved for another recipe is told apart
  /// from one whose logits changed.
  std::string fingerprint;
};

std::vector<Recipe> list_recipes();  ///< all of golden/recipes.json, in its order
Recipe find_recipe(const std::string& name);
std::shared_ptr<const Checkpoint> make_checkpoint(const Recipe& recipe);

}  // namespace kvconform
