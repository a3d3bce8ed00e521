// Reading golden/recipes.json: models by name, calls by name or in place, tokens given or drawn.
#include "golden/recipes.h"

#include <fmt/format.h>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "golden/oracle_cases.h"
#include "golden/sha256.h"
#include "reference/error.h"
#include "reference/random.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Kind = GoldenCall::Kind;

constexpr std::pair<Kind, const char*> kinds[] = {{Kind::score, "score"},
                                                  {Kind::open, "open"},
                                                  {Kind::extend, "extend"},
                                                  {Kind::rewind, "rewind"}};

[[noreturn]] void refuse(const std::string& recipe, const std::string& problem) {
  throw Error("KV3005", fmt::format("recipe {}: {}", recipe, problem),
              "correct golden/recipes.json; golden/README.md lists the fields");
}

void check_fields(const std::string& where, const json& j, const std::set<std::string>& known) {
  if (!j.is_object()) refuse(where, fmt::format("{} is not an object", j.dump()));
  for (const auto& [key, value] : j.items()) {
    if (!known.count(key)) refuse(where, fmt::format("unknown field {}", key));
  }
}

Dtype parse_dtype(const std::string& recipe, const std::string& text) {
  if (text == "float32") return Dtype::f32;
  if (text == "bfloat16") return Dtype::bf16;
  if (text == "float16") return Dtype::f16;
  refuse(recipe, fmt::format("dtype {} is not float32, bfloat16 or float16", text));
}

/// Tokens given as a list, or as a number: that many drawn from a stream named after the recipe.
std::vector<int> parse_tokens(const Recipe& recipe, const json& j, int vocab,
                              RandomStream& stream) {
  std::vector<int> tokens;
  if (j.is_array()) return j;
  const int count = j.get<int>();
  if (count < 1) refuse(recipe.name, fmt::format("cannot draw {} tokens", count));
  for (int i = 0; i < count; ++i) tokens.push_back(int(stream.below(std::uint64_t(vocab))));
  return tokens;
}

GoldenCall parse_call(const Recipe& recipe, const json& j, int vocab, RandomStream& stream) {
  if (j == "open") return {Kind::open, {}, 0};
  check_fields(recipe.name, j, {"score", "extend", "rewind"});
  if (j.size() != 1) refuse(recipe.name, fmt::format("{} is not one call", j.dump()));
  const auto entry = j.begin();
  if (entry.key() == "rewind") return {Kind::rewind, {}, entry->get<int>()};
  return {entry.key() == "score" ? Kind::score : Kind::extend,
          parse_tokens(recipe, *entry, vocab, stream), 0};
}

/// Gives each `open` the number of tokens that its session will hold, and refuses calls out of
/// order.
void finish_sessions(Recipe& recipe) {
  GoldenCall* session = nullptr;
  int length = 0;
  for (GoldenCall& call : recipe.calls) {
    if (call.kind == Kind::open) {
      session = &call, length = 0;
    } else if (call.kind != Kind::score && !session) {
      refuse(recipe.name, fmt::format("{} before open", to_string(call.kind)));
    } else if (call.kind == Kind::extend) {
      length += int(call.tokens.size());
      session->length = std::max(session->length, length);
    } else if (call.kind == Kind::rewind) {
      if (call.length < 0 || call.length > length) {
        refuse(recipe.name, fmt::format("rewind to {} of {} tokens", call.length, length));
      }
      length = call.length;
    }
  }
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
    refuse(recipe.name, fmt::format("there is no model {}", j.at("model").dump()));
  }
  const json& model = models.at(j.at("model").get<std::string>());
  check_fields(recipe.name, model, {"config", "seed", "checkpoint"});
  if (model.contains("checkpoint")) {
    for (const char* field : {"config", "seed", "dtype"}) {
      if (j.contains(field)) refuse(recipe.name, fmt::format("{} of a stored model", field));
    }
    recipe.checkpoint = model.at("checkpoint").get<std::string>();
    return read_json(golden_dir() / recipe.checkpoint / "config.json");
  }
  json config = model.at("config");
  // Field by field and not as a merge patch: null is a value (final_logit_softcapping).
  config.update(j.value("config", json::object()));
  recipe.weights.seed = j.value("seed", model.at("seed").get<std::uint64_t>());
  recipe.weights.dtype = parse_dtype(recipe.name, j.value("dtype", "float32"));
  recipe.config = std::make_shared<const json>(config);
  return config;
}

std::string fingerprint(const Recipe& recipe) {
  json calls = json::array();
  for (const GoldenCall& call : recipe.calls) {
    calls.push_back({to_string(call.kind), call.tokens, call.length});
  }
  const json all = {{"checkpoint", recipe.checkpoint.generic_string()},
                    {"config", recipe.config ? *recipe.config : json()},
                    {"seed", recipe.weights.seed},
                    {"dtype", to_string(recipe.weights.dtype)},
                    {"calls", calls}};
  return sha256(all.dump());
}

Recipe parse_recipe(const json& j, const json& models, const json& call_lists) {
  Recipe recipe;
  recipe.name = j.at("name");
  check_fields(recipe.name, j, {"name", "about", "model", "config", "seed", "dtype", "calls"});
  recipe.about = j.at("about");
  const int vocab = vocabulary(parse_model(recipe, j, models));
  json calls = j.at("calls");
  if (calls.is_string()) {
    const std::string list = calls;
    if (!call_lists.contains(list)) refuse(recipe.name, fmt::format("no call list {}", list));
    calls = call_lists.at(list);
  }
  RandomStream stream(stream_key(0, recipe.name));
  for (const json& call : calls) recipe.calls.push_back(parse_call(recipe, call, vocab, stream));
  if (recipe.calls.empty()) refuse(recipe.name, "no calls");
  finish_sessions(recipe);
  recipe.fingerprint = fingerprint(recipe);
  return recipe;
}

}  // namespace

const char* to_string(GoldenCall::Kind kind) {
  for (const auto& [value, name] : kinds) {
    if (value == kind) return name;
  }
  return "?";
}

std::vector<Recipe> list_recipes() {
  const auto file = golden_dir() / "recipes.json";
  const json all = read_json(file);
  std::vector<Recipe> recipes;
  std::set<std::string> names;
  try {
    check_fields("(all)", all, {"models", "call_lists", "recipes"});
    for (const json& j : all.at("recipes")) {
      recipes.push_back(parse_recipe(j, all.at("models"), all.at("call_lists")));
      if (!names.insert(recipes.back().name).second) refuse(recipes.back().name, "occurs twice");
    }
  } catch (const json::exception& e) {
    const std::string last = recipes.empty() ? "(the first)" : "after " + recipes.back().name;
    refuse(last, e.what());
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

std::shared_ptr<const Checkpoint> make_checkpoint(const Recipe& recipe) {
  if (!recipe.checkpoint.empty()) return Checkpoint::open(golden_dir() / recipe.checkpoint);
  return Checkpoint::from_tensors(*recipe.config, random_weights(*recipe.config, recipe.weights),
                                  "golden " + recipe.name);
}

}  // namespace kvconform
