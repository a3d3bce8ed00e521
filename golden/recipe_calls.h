// The calls of a recipe as recipes.json writes them: short for one row and one session, complete
// for batches and several sessions (golden/README.md, "Calls"). Reading them numbers the sessions,
// draws the tokens that are given as a count, gives every session the capacity it will need and
// refuses what makes no sense. Errors: KV3005.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "properties/case.h"

namespace kvconform {

/// `vocab`: tokens are drawn below it, from a stream named after the recipe.
std::vector<Call> parse_calls(const std::string& recipe, const nlohmann::json& calls, int vocab);

/// Error KV3005 about a recipe.
[[noreturn]] void refuse_recipe(const std::string& recipe, const std::string& problem);

}  // namespace kvconform
