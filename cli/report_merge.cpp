// report merge: joins the reports of shards and of runs of different subjects into one, which says
// what a single run would have said. The exit code is that of the whole.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/check_output.h"
#include "cli/command.h"
#include "cli/output.h"
#include "properties/reports/merge.h"
#include "properties/reports/report.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::vector<std::string> folders;
  std::string report;
};

ExitCode merge(const Options& options) {
  RunSummary summary = merge_reports({options.folders.begin(), options.folders.end()});
  open_report(options.report, /*resume=*/false);
  copy_failures(summary, options.report);
  write_report(summary, options.report);
  const int code = exit_code(summary);
  for (const PropertyResult& result : summary.results) write_out(failure_text(result));
  print("\n{}{}{}", summary_table(summary), held_against(summary), missing_coverage(summary));
  print("report: {}\n{}", options.report, last_line(summary, code));
  announce_to_github(summary);
  finish_output();
  return static_cast<ExitCode>(code);
}

}  // namespace

Action add_report_merge(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("DIR", options->folders, "reports of all shards, or of different subjects")
      ->required();
  app.add_option("--report", options->report, "write the report into this new or empty folder")
      ->required()
      ->check([](const std::string& folder) { return folder.empty() ? "name a folder" : ""; })
      ->type_name("OUT");
  return [options] { return merge(*options); };
}

}  // namespace kvconform::cli
