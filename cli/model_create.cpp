// model create: writes a random checkpoint in Hugging Face layout, tiny unless --like names a
// published size. Any field of its config can be set (reference/published_configs.h).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/words.h"
#include "reference/error.h"
#include "reference/published_configs.h"
#include "reference/random_weights.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::string folder, family, like;
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

ExitCode create(const Options& options, const std::vector<std::string>& further_words) {
  std::vector<std::string> settings = options.settings;
  for (std::string& setting : settings_of(further_words)) settings.push_back(std::move(setting));
  const nlohmann::json config = config_for_create(base_config(options), settings);
  write_random_checkpoint(options.folder, config, options.recipe);
  print("{}\n", options.folder);
  return ExitCode::conforms;
}

const std::map<std::string, Dtype> kDtypes = {
    {"float32", Dtype::f32}, {"bfloat16", Dtype::bf16}, {"float16", Dtype::f16}};
const std::map<std::string, DeadTensors> kDeadTensors = {
    {"absent", DeadTensors::absent}, {"random", DeadTensors::random}, {"nan", DeadTensors::nan}};

}  // namespace

Action add_model_create(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("DIR", options->folder, "a new or empty folder")->required();
  app.add_option("--family", options->family, "gemma3n (default) or gemma4")
      ->check(CLI::IsMember({"gemma3n", "gemma4"}))
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
  app.add_option("--dead-tensors", options->recipe.dead_tensors,
                 "projections of consumers, as published files have them: absent, random or nan")
      ->transform(CLI::CheckedTransformer(kDeadTensors).description(""))
      ->type_name("KIND");
  app.add_option("--dtype", options->recipe.dtype, "float32, bfloat16 or float16")
      ->transform(CLI::CheckedTransformer(kDtypes).description(""))
      ->type_name("NAME");
  app.allow_extras();
  return [options, &app] { return create(*options, app.remaining()); };
}

}  // namespace kvconform::cli
