// shrink: makes a failing case smaller and writes it beside the given file.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/timeout.h"
#include "properties/replay.h"
#include "properties/reports/report.h"
#include "reference/counted.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::string file;
  std::optional<std::string> output;
  ShrinkOptions shrink;
};

// "failures/a.json" becomes "failures/a.shrunk.json".
std::filesystem::path target_of(const Options& options) {
  const std::filesystem::path beside =
      std::filesystem::path(options.file).replace_extension(".shrunk.json");
  return output_file(options.output.value_or(beside.string()), "--output", options.file);
}

RunSummary summary_of(const PropertyResult& result) {
  RunSummary summary;
  summary.complete = true;
  summary.results = {result};
  return summary;
}

ExitCode shrink(Options& options) {
  ShrinkOptions& how = options.shrink;
  const Case given = read_case(options.file);
  const std::filesystem::path target = target_of(options);
  how.stop = &stop_on_interrupt();
  how.process.stop = how.stop;
  how.on_step = [](const Case&, int steps, int tried) {
    if (is_terminal(Stream::error))
      write_error(fmt::format("\r\033[K{} smaller, {} tried", counted(steps, "step"),
                              counted(tried, "case")));
  };
  const Case smallest = shrink_case(given, how);
  if (is_terminal(Stream::error)) write_error("\r\033[K");
  const PropertyResult result = replay_case(smallest, {how.subject, how.against, 1, how.process});
  const ExitCode code = static_cast<ExitCode>(exit_code(summary_of(result)));
  if (code == ExitCode::conforms || code == ExitCode::nothing_compared) {
    print("{}: {}; nothing to make smaller\n", options.file, to_string(result.verdict));
    return code;
  }
  write_case(smallest, target);
  print("{}smallest case: {}\n", failure_text(result), target.string());
  return *how.stop ? ExitCode::interrupted : code;
}

}  // namespace

Action add_shrink(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "a failing case, as in a report's failures/")->required();
  app.add_option("--output", options->output, "where the smallest case goes (FILE.shrunk.json)")
      ->type_name("FILE");
  app.add_option("--subject", options->shrink.subject, "instead of the one recorded")
      ->type_name("NAME");
  app.add_option("--against", options->shrink.against, "instead of the one recorded")
      ->type_name("NAME");
  app.add_option("--seconds", options->shrink.seconds, "time it may take")
      ->check(positive_seconds("--seconds"))
      ->type_name("S")
      ->capture_default_str();
  add_timeout(app, options->shrink.process.timeout);
  return [options] { return shrink(*options); };
}

}  // namespace kvconform::cli
