// check: runs the properties on the subjects, then verifies what must not change (oracle data and
// goldens). Running and judging is properties/runner.h's; here are options, progress and words.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/check_output.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stored_results.h"
#include "cli/subjects.h"
#include "cli/version.h"
#include "cli/words.h"
#include "properties/property.h"
#include "properties/reports/report.h"
#include "properties/runner.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

struct Options {
  RunOptions run;
  std::vector<std::string> models;
  std::string size = "default", shard = "1/1", report, known_failures;
  bool list = false;
};

void require_known_properties(const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const auto& property : all_properties()) names.emplace_back(property->name());
  for (const std::string& name : wanted)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error("KV4008",
                  fmt::format("there is no property {}{}", name, did_you_mean(name, names)),
                  "kvconform check --list shows the properties");
}

// Readings that CLI11 leaves to us. Everything wrong is said before anything runs.
void complete(Options& options) {
  if (!options.known_failures.empty())
    throw Error("KV4006", "--known-failures is not available in this version",
                "leave the option out; every failure then counts");
  if (options.run.resume && options.report.empty())
    throw Error("KV4003", "--resume needs the report of the run to go on with",
                "add --report DIR, the folder of the run that was interrupted");
  RunOptions& run = options.run;
  if (run.subjects.empty()) run.subjects = {"reference"};
  for (const std::string& subject : run.subjects) require_available(subject);
  require_available(run.against);
  require_known_properties(run.properties);
  run.models.assign(options.models.begin(), options.models.end());
  run.size = *case_size(options.size);
  const Shard shard = parse_shard(options.shard);
  run.shard = shard.index;
  run.shards = shard.count;
  run.report = options.report;
  run.commit = commit();
}

// A whole check also verifies what is stored. Chosen properties, given models and all shards but
// the first are parts of one.
bool verifies_stored_results(const RunOptions& run) {
  const auto& subjects = run.subjects;
  return run.properties.empty() && run.models.empty() && run.shard == 1 &&
         std::find(subjects.begin(), subjects.end(), "reference") != subjects.end();
}

void add_stored_results(const RunOptions& run, RunSummary& summary, ProgressLine& progress) {
  for (const StoredCheck& check : stored_checks()) {
    if (*run.stop) {
      summary.interrupted = true;
      summary.complete = false;
      break;
    }
    progress.say(check.name);
    summary.results.push_back(check.verify());
    run.on_result(summary.results.back());
  }
  if (!run.report.empty()) write_report(summary, run.report);
}

void print_summary(const RunSummary& summary, const RunOptions& run, int code) {
  print("\n{}{}", summary_table(summary), missing_coverage(summary));
  if (!run.report.empty()) print("report: {}\n", run.report.string());
  write_out(last_line(summary, code));
  announce_to_github(summary);
}

ExitCode check(Options& options) {
  if (options.list) {
    write_out(property_list());
    return ExitCode::conforms;
  }
  complete(options);
  RunOptions& run = options.run;
  ProgressLine progress;
  run.stop = &stop_on_interrupt();
  run.on_progress = [&](const Progress& now) { progress.update(now); };
  run.on_result = [&](const PropertyResult& result) {
    progress.finished(result);
    write_out(failure_text(result));
  };
  RunSummary summary = run_properties(run);
  if (verifies_stored_results(run)) add_stored_results(run, summary, progress);
  progress.clear();
  const int code = exit_code(summary);
  print_summary(summary, run, code);
  return static_cast<ExitCode>(code);
}

void add_what_to_run(CLI::App& app, Options& options) {
  RunOptions& run = options.run;
  run.subjects.clear();
  app.add_option("--subject", run.subjects,
                 "implementation to test, repeatable (default: reference)")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--against", run.against, "what it is held against")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--model", options.models, "use this checkpoint, not generated models; repeatable")
      ->allow_extra_args(false)
      ->type_name("DIR");
  app.add_option("--property", run.properties, "run this property only; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_flag("--list", options.list, "list the properties and stop");
}

void add_how_much(CLI::App& app, Options& options) {
  RunOptions& run = options.run;
  app.add_option("--cases", run.cases, "generated cases for each property")
      ->check(whole_number(1))
      ->type_name("N");
  app.add_option("--seconds", run.seconds, "time for each subject, shared among its properties")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
  app.add_option("--seed", run.seed, "seed of the generated cases")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--size", options.size, "smoke, default or deep")
      ->check(CLI::IsMember({"smoke", "default", "deep"}))
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--jobs", run.jobs, "threads (default: as many as there are processors)")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  app.add_option("--shard", options.shard, "run shard I of N")->type_name("I/N");
  app.add_option("--timeout", run.timeout, "seconds for one request of a process subject")
      ->check(CLI::PositiveNumber)
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace

Action add_check(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_what_to_run(app, *options);
  add_how_much(app, *options);
  app.add_option("--known-failures", options->known_failures, "ledger of known failures")
      ->type_name("FILE");
  app.add_option("--report", options->report, "write the report into this new or empty folder")
      ->check([](const std::string& folder) { return folder.empty() ? "name a folder" : ""; })
      ->type_name("DIR");
  app.add_flag("--resume", options->run.resume, "go on with the interrupted run in --report");
  return [options] { return check(*options); };
}

}  // namespace kvconform::cli
