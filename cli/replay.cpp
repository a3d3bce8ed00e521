// replay: runs recorded cases again, with traces, and says whether they still fail.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/timeout.h"
#include "properties/replay.h"
#include "properties/reports/report.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  ReplayOptions replay;
};

void print_result(const std::string& file, const PropertyResult& result) {
  const std::string failure = failure_text(result);
  write_out(failure);
  print("{}: {}{}{}\n", file, to_string(result.verdict), result.message.empty() ? "" : ": ",
        result.message);
}

ExitCode replay(Options& options) {
  std::vector<Case> cases;  // all are read first: a wrong file is said before anything runs
  for (const std::string& file : options.files) cases.push_back(read_case(file));
  options.replay.process.stop = &stop_on_interrupt();
  RunSummary summary;
  summary.complete = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (*options.replay.process.stop) return ExitCode::interrupted;
    summary.results.push_back(replay_case(cases[i], options.replay));
    print_result(options.files[i], summary.results.back());
  }
  return static_cast<ExitCode>(exit_code(summary));
}

}  // namespace

Action add_replay(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "recorded cases, as in a report's failures/")->required();
  app.add_option("--subject", options->replay.subject, "instead of the one recorded")
      ->type_name("NAME");
  app.add_option("--against", options->replay.against, "instead of the one recorded")
      ->type_name("NAME");
  app.add_option("--repeats", options->replay.repeats, "runs of each; other results mean flaky")
      ->check(whole_number(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  add_timeout(app, options->replay.process.timeout);
  return [options] { return replay(*options); };
}

}  // namespace kvconform::cli
