// Recipes: what each golden is computed from. A recipe is data in golden/recipes.json: a model
// (drawn from a seed, or a checkpoint folder in golden/) and the calls made on it, in the words of
// properties/case.h. To add one, add an entry there, then `kvconform golden record NAME` and
// `golden approve NAME`; golden/README.md explains the fields. Errors: KV3002 (unreadable), KV3004
// (no such recipe), KV3005 (a recipe that cannot be followed).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "properties/case.h"

namespace kvconform {

struct Recipe {
  std::string name, about;
  std::string checkpoint;   ///< of a stored model: its folder, relative to golden/
  ModelSpec model;          ///< how to make it
  std::vector<Call> calls;  ///< each session has a number of its own
  /// SHA-256 of what recipes.json says, all but `about`: a golden approved for another recipe is
  /// told apart from one whose logits changed. Drawn tokens are not in it: if the same words draw
  /// other tokens, it is the drawing that changed.
  std::string fingerprint;
};

std::vector<Recipe> list_recipes();  ///< all of golden/recipes.json, in its order
Recipe find_recipe(const std::string& name);
std::unique_ptr<ModelSource> make_model(const Recipe& recipe);

/// "extend of session 0", for messages.
std::string in_words(const Call& call);

}  // namespace kvconform
