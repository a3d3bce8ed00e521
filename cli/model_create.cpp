// model create: writes a random checkpoint in Hugging Face layout, tiny unless --like names a
// published size. Any field of its config can be set (reference/published_configs.h).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/words.h"
#include "reference/error.h"
#include "reference/layer_plan.h"
#include "reference/model_config.h"
#include "reference/published_configs.h"
#include "reference/random_weights.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder, family, like, dtype = "float32", dead_tensors = "absent";
  std::vector<std::string> settings;
  WeightsRecipe recipe;
};

// Options that are no options of this command are fields of the config: --sliding-window 3,
// --sliding_window=3.
std::vector<std::string> settings_of(const std::vector<std::string>& words) {
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].rfind("--", 0) != 0)
      throw Error("KV4003", fmt::format("model create does not take \"{}\"", words[i]),
                  "see kvconform model create --help");
    std::string setting = words[i].substr(2);
    const std::size_t name_end = std::min(setting.find('='), setting.size());
    std::replace(setting.begin(), setting.begin() + static_cast<std::ptrdiff_t>(name_end), '-',
                 '_');
    if (name_end == setting.size()) {
      if (i + 1 == words.size())
        throw Error("KV4003", fmt::format("{} needs a value", words[i]),
                    "config fields are written --field value or --set field=value");
      setting += "=" + words[++i];
    }
    settings.push_back(setting);
  }
  return settings;
}

nlohmann::json base_config(const Options& options) {
  if (!options.like.empty()) {
    if (options.like.rfind(options.family, 0) != 0)
      throw Error("KV4003", fmt::format("{} is not of the family {}", options.like, options.family),
                  "leave --family out beside --like");
    return published_config(options.like);
  }
  return tiny_config(options.family == "gemma4" ? Family::gemma4 : Family::gemma3n);
}

const std::map<std::string, Dtype> kDtypes = {
    {"float32", Dtype::f32}, {"bfloat16", Dtype::bf16}, {"float16", Dtype::f16}};
const std::map<std::string, DeadTensors> kDeadTensors = {
    {"absent", DeadTensors::absent}, {"random", DeadTensors::random}, {"nan", DeadTensors::nan}};

template <class Kind>
std::vector<std::string> names_of(const std::map<std::string, Kind>& kinds) {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  return names;
}

[[noreturn]] void contradict(const std::string& one, const std::string& other) {
  throw Error("KV4015", fmt::format("{} contradicts {}", other, one), "leave one of the two out");
}

// A field that is given twice has one value, and nobody guesses which.
std::map<std::string, std::string> values_of(const std::vector<std::string>& settings) {
  std::map<std::string, std::string> values;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) continue;  // refused by config_for_create
    const std::string field = setting.substr(0, equals), value = setting.substr(equals + 1);
    const auto [before, added] = values.emplace(field, value);
    if (!added && before->second != value) contradict(field + "=" + before->second, setting);
  }
  return values;
}

// Fields that options of this command decide: the options would win without a word.
void require_no_contradiction(const Options& options, const nlohmann::json& base,
                              const std::vector<std::string>& settings) {
  const std::map<std::string, std::string> values = values_of(settings);
  for (const char* field : {"dtype", "torch_dtype"}) {
    const auto given = values.find(field);
    if (given != values.end() && given->second != options.dtype)
      contradict("--dtype " + options.dtype, fmt::format("{}={}", field, given->second));
  }
  const auto type = values.find("model_type");
  if (type != values.end() && type->second.rfind(base.at("model_type"), 0) != 0)
    contradict(options.like.empty()
                   ? fmt::format("--family {}", options.family.empty() ? "gemma3n" : options.family)
                   : "--like " + options.like,
               "model_type=" + type->second);
}

void require_dead_tensors(const Options& options, const nlohmann::json& config) {
  if (options.recipe.dead_tensors == DeadTensors::absent) return;
  const std::vector<LayerPlan> plan = plan_layers(parse_model_config(config));
  if (std::any_of(plan.begin(), plan.end(), [](const LayerPlan& l) { return !l.owns_keys(); }))
    return;
  contradict("a config in which no layer reads the keys of another",
             "--dead-tensors " + options.dead_tensors);
}

// What is wrong with a config may be a field that nobody typed: it came with the base.
nlohmann::json checked_config(const Options& options, const nlohmann::json& base,
                              const std::vector<std::string>& settings) {
  try {
    nlohmann::json config = config_for_create(base, settings);
    plan_layers(parse_model_config(config));
    return config;
  } catch (const Error& error) {
    if (settings.empty()) throw;
    const std::string from =
        options.like.empty() ? "the tiny config of the family" : "--like " + options.like;
    throw Error(error.id(),
                fmt::format("{} ({} together with {})", error.problem(), from, listed(settings)),
                error.remedy());
  }
}

bool is_written_by_create(const std::string& name) {
  return name == "config.json" || name == "model.safetensors" ||
         (name.front() == '.' && name.ends_with(".partial"));
}

// Removes what the command made, for an end without unwinding: its files, and the folders that were
// not there before, as far as nobody else put anything into them. The writer may be making files
// meanwhile: what fails to go is tried again.
std::function<void()> removal_of_new(const fs::path& given) {
  fs::path folder = fs::absolute(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "model/"
  std::error_code unreadable;
  if (fs::exists(folder, unreadable) && !fs::is_empty(folder, unreadable)) return {};
  std::vector<fs::path> made;  // innermost first
  for (fs::path path = folder; !fs::exists(path, unreadable) && path != path.parent_path();
       path = path.parent_path())
    made.push_back(path);
  return [folder, made] {
    for (int attempt = 0; attempt < 10; ++attempt) {
      std::error_code gone;
      for (const auto& entry : fs::directory_iterator(folder, gone))
        if (is_written_by_create(entry.path().filename())) fs::remove(entry.path(), gone);
      for (const fs::path& path : made) fs::remove(path, gone);
      if (!made.empty() && !fs::exists(folder, gone)) return;
    }
  };
}

ExitCode create(Options& options, const std::vector<std::string>& further_words) {
  options.recipe.dtype = kDtypes.at(options.dtype);
  options.recipe.dead_tensors = kDeadTensors.at(options.dead_tensors);
  std::vector<std::string> settings = options.settings;
  for (std::string& setting : settings_of(further_words)) settings.push_back(std::move(setting));
  const nlohmann::json base = base_config(options);
  require_no_contradiction(options, base, settings);
  const nlohmann::json config = checked_config(options, base, settings);
  require_dead_tensors(options, config);
  end_on_interrupt(removal_of_new(options.folder));
  write_random_checkpoint(options.folder, config, options.recipe);
  print("{}\n", options.folder);
  return ExitCode::conforms;
}

}  // namespace

Action add_model_create(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("DIR", options->folder, "a new or empty folder")->required();
  app.add_option("--family", options->family, "gemma3n (default) or gemma4")
      ->check(one_of("--family", {"gemma3n", "gemma4"}))
      ->type_name("NAME");
  app.add_option("--like", options->like,
                 fmt::format("a published size: {}", listed(published_config_names())))
      ->type_name("NAME");
  app.add_option("--set", options->settings,
                 "a field of config.json; --field-name value does the same; repeatable")
      ->allow_extra_args(false)
      ->type_name("FIELD=VALUE");
  app.add_option("--seed", options->recipe.seed, "seed of the weights")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--dead-tensors", options->dead_tensors,
                 "projections of consumers, as published files have them: absent, random or nan")
      ->check(one_of("--dead-tensors", names_of(kDeadTensors)))
      ->type_name("KIND")
      ->capture_default_str();
  app.add_option("--dtype", options->dtype, "float32, bfloat16 or float16")
      ->check(one_of("--dtype", names_of(kDtypes)))
      ->type_name("NAME")
      ->capture_default_str();
  app.allow_extras();
  return [options, &app] { return create(*options, app.remaining()); };
}

}  // namespace kvconform::cli
