// plan: prints who reads whose keys and values (the work is reference/plan_report.h's).
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "cli/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "reference/error.h"
#include "reference/layer_plan.h"
#include "reference/model_config.h"
#include "reference/plan_report.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::string path;
  bool json = false;
};

ExitCode plan(const Options& options) {
  end_on_interrupt();
  std::filesystem::path file = options.path;
  if (std::filesystem::is_directory(file)) {
    file /= "config.json";
    std::error_code unknown;  // a pipe named by itself may be meant; one in a checkpoint never is
    if (std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown))
      throw Error("KV1302", file.string() + " is not a regular file",
                  "give a checkpoint folder in Hugging Face layout, with its config.json");
  }
  const ModelConfig config = parse_model_config(parse_config_text(read_text(file), file.string()));
  const std::vector<LayerPlan> layers = plan_layers(config);
  if (options.json)
    print("{}\n", plan_json(config, layers).dump(2));
  else
    write_out(plan_table(config, layers));
  return ExitCode::conforms;
}

}  // namespace

Action add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("PATH", options->path, "a checkpoint folder, or a config.json")->required();
  app.add_flag("--json", options->json, "print JSON for programs");
  return [options] { return plan(*options); };
}

}  // namespace kvconform::cli
