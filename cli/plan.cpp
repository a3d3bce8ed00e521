// plan: prints who reads whose keys and values, and what a session of the CUDA engine reserves (the
// work is reference/plan_report.h's and session_memory.h's).
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
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/session_memory.h"
#include "reference/error.h"
#include "reference/layer_plan.h"
#include "reference/model_config.h"
#include "reference/plan_report.h"

namespace kvconform::cli {
namespace {

constexpr int kCapacity = 4096;  // of a row, where nothing is said

struct Options {
  std::string path;
  bool json = false;
  cuda::SessionOptions session;
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
  if (options.json) {
    nlohmann::json facts = plan_json(config, layers);
    facts["session"] = session_memory_json(config, layers, options.session);
    print("{}\n", facts.dump(2));
  } else {
    write_out(plan_table(config, layers) + session_memory_text(config, layers, options.session));
  }
  return ExitCode::conforms;
}

}  // namespace

Action add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  cuda::SessionOptions& session = options->session;
  session.capacity = kCapacity;
  app.add_option("PATH", options->path, "a checkpoint folder, or a config.json")->required();
  app.add_flag("--json", options->json, "print JSON for programs");
  const auto size = [&](const char* name, int& value, int least, const char* what) {
    app.add_option(name, value, what)
        ->check(whole_number(least, 1 << 24))
        ->type_name("N")
        ->capture_default_str();
  };
  size("--batch", session.batch, 1, "rows of the engine's session");
  size("--capacity", session.capacity, 0, "the most tokens that one of its rows holds");
  size("--chunk", session.chunk, 1, "the most tokens of one launch, over all rows");
  size("--reserve", session.reserve, 0, "how far a row can be rewound");
  return [options] { return plan(*options); };
}

}  // namespace kvconform::cli
