// Reading golden/recipes.json: models by name with fields replaced, calls by name or in place.
#include "golden/recipes.h"

#include <fmt/format.h>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "golden/oracle_cases.h"
#include "golden/recipe_calls.h"
#include "golden/sha256.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

void check_fields(const std::string& where, const json& j, const std::set<std::string>& known) {
  if (!j.is_object()) refuse_recipe(where, fmt::format("{} is not an object", j.dump()));
  for (const auto& [key, value] : j.items()) {
    if (!known.count(key)) refuse_recipe(where, fmt::format("unknown field {}", key));
  }
}

Dtype parse_dtype(const std::string& recipe, const std::string& text) {
  if (text == "float32") return Dtype::f32;
  if (text == "bfloat16") return Dtype::bf16;
  if (text == "float16") return Dtype::f16;
  refuse_recipe(recipe, fmt::format("dtype {} is not float32, bfloat16 or float16", text));
}

DeadTensors parse_dead_tensors(const std::string& recipe, const std::string& text) {
  if (text == "absent") return DeadTensors::absent;
  if (text == "random") return DeadTensors::random;
  if (text == "nan") return DeadTensors::nan;
  refuse_recipe(recipe, fmt::format("dead_tensors {} is not absent, random or nan", text));
}

int vocabulary(const json& config) {
  const json& text = config.contains("text_config") ? config.at("text_config") : config;
  return std::min(text.at("vocab_size").get<int>(),
                  text.value("vocab_size_per_layer_input", text.at("vocab_size").get<int>()));
}

json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  try {
    if (in) return json::parse(in);
  } catch (const json::exception& e) {
    throw Error("KV3002", file.string() + ": " + e.what(), "correct the JSON");
  }
  throw Error("KV3002", file.string() + " cannot be opened",
              "set KVCONFORM_GOLDEN_DIR to the folder golden/ of a source tree");
}

/// The model's part of a recipe: a named model, with fields of its config replaced. Returns the
/// config.
json parse_model(Recipe& recipe, const json& j, const json& models) {
  if (!models.contains(j.at("model"))) {
    refuse_recipe(recipe.name, fmt::format("there is no model {}", j.at("model").dump()));
  }
  const json& model = models.at(j.at("model").get<std::string>());
  check_fields(recipe.name, model, {"config", "seed", "checkpoint"});
  if (model.contains("checkpoint")) {
    for (const char* field : {"config", "seed", "dtype", "dead_tensors"}) {
      if (j.contains(field)) refuse_recipe(recipe.name, fmt::format("{} of a stored model", field));
    }
    recipe.checkpoint = model.at("checkpoint").get<std::string>();
    recipe.model.folder = golden_dir() / recipe.checkpoint;
    return read_json(recipe.model.folder / "config.json");
  }
  json config = model.at("config");
  // Field by field and not as a merge patch: null is a value (final_logit_softcapping).
  config.update(j.value("config", json::object()));
  for (const json& field : j.value("without", json::array())) config.erase(field);
  recipe.model.weights.seed = j.value("seed", model.at("seed").get<std::uint64_t>());
  recipe.model.weights.dtype = parse_dtype(recipe.name, j.value("dtype", "float32"));
  recipe.model.weights.dead_tensors =
      parse_dead_tensors(recipe.name, j.value("dead_tensors", "absent"));
  recipe.model.config_text = config.dump();
  return config;
}

std::string fingerprint(const Recipe& recipe, const json& calls) {
  const WeightsRecipe& weights = recipe.model.weights;
  const json all = {{"name", recipe.name},  // the tokens' stream is named after it
                    {"checkpoint", recipe.checkpoint},
                    {"config", recipe.model.config_text},
                    {"seed", weights.seed},
                    {"dtype", to_string(weights.dtype)},
                    {"dead_tensors", int(weights.dead_tensors)},
                    {"calls", calls}};
  return sha256(all.dump());
}

Recipe parse_recipe(const json& j, const json& models, const json& call_lists) {
  Recipe recipe;
  recipe.name = j.at("name");
  check_fields(
      recipe.name, j,
      {"name", "about", "model", "config", "without", "seed", "dtype", "dead_tensors", "calls"});
  recipe.about = j.at("about");
  const int vocab = vocabulary(parse_model(recipe, j, models));
  json calls = j.at("calls");
  if (calls.is_string()) {
    const std::string list = calls;
    if (!call_lists.contains(list)) {
      refuse_recipe(recipe.name, fmt::format("no call list {}", list));
    }
    calls = call_lists.at(list);
  }
  recipe.calls = parse_calls(recipe.name, calls, vocab);
  recipe.fingerprint = fingerprint(recipe, calls);
  return recipe;
}

}  // namespace

std::vector<Recipe> list_recipes() {
  const auto file = golden_dir() / "recipes.json";
  const json all = read_json(file);
  std::vector<Recipe> recipes;
  std::set<std::string> names;
  try {
    check_fields("(all)", all, {"models", "call_lists", "recipes"});
    for (const json& j : all.at("recipes")) {
      recipes.push_back(parse_recipe(j, all.at("models"), all.at("call_lists")));
      if (!names.insert(recipes.back().name).second)
        refuse_recipe(recipes.back().name, "occurs twice");
    }
  } catch (const json::exception& e) {
    const std::string last = recipes.empty() ? "(the first)" : "after " + recipes.back().name;
    refuse_recipe(last, e.what());
  }
  return recipes;
}

Recipe find_recipe(const std::string& name) {
  for (Recipe& recipe : list_recipes()) {
    if (recipe.name == name) return std::move(recipe);
  }
  throw Error("KV3004", fmt::format("there is no golden named {}", name),
              "`kvconform golden list` shows their names");
}

std::unique_ptr<ModelSource> make_model(const Recipe& recipe) {
  return make_model_source(recipe.model);
}

std::string in_words(const Call& call) {
  if (call.kind == Call::Kind::score) return "score";
  return fmt::format("{} of session {}", to_string(call.kind), call.session);
}

}  // namespace kvconform
