// check: runs the properties on the subjects, then verifies what must not change (oracle data and
// goldens). Running and judging is properties/runner.h's; here are options, progress and words.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/check_output.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stored_results.h"
#include "cli/timeout.h"
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
  std::vector<std::string> models, properties;
  std::string size = "default", shard = "1/1", report, known_failures;
  std::vector<std::string> regressions;
  bool list = false;
};

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// --property names generated properties and checks of what is stored alike; the runner knows the
// former.
void choose_properties(const Names& wanted, RunOptions& run) {
  Names generated, stored;
  for (const auto& property : all_properties()) generated.emplace_back(property->name());
  for (const StoredCheck& check : stored_checks()) stored.push_back(check.name);
  Names all = generated;
  all.insert(all.end(), stored.begin(), stored.end());
  for (const std::string& name : wanted) {
    if (!contains(all, name))
      throw Error("KV4008", fmt::format("there is no property {}{}", name, did_you_mean(name, all)),
                  "kvconform check --list shows the properties");
    Names& kind = contains(stored, name) ? run.stored : run.properties;
    if (!contains(kind, name)) kind.push_back(name);
  }
  run.generated = wanted.empty() || !run.properties.empty();
}

// What is stored was computed for some subjects, on models of its own.
void require_stored_can_run(const RunOptions& run) {
  if (run.stored.empty()) return;
  for (const StoredCheck& check : stored_checks())
    if (contains(run.stored, check.name) &&
        std::none_of(run.subjects.begin(), run.subjects.end(), check.takes))
      throw Error("KV4016",
                  fmt::format("--property {} verifies {}, which is not among those asked for ({})",
                              check.name, check.subjects, listed(run.subjects)),
                  "leave --subject out, or add --subject reference");
  if (!run.models.empty())
    throw Error(
        "KV4016",
        fmt::format("--property {} has models of its own and takes no --model", run.stored[0]),
        "leave one of the two out");
}

// What runs before the generated cases: what is checked in, what the user names, and what failed in
// the reports beside this one. Shards are often written side by side at the same time: they do not
// look at each other.
std::vector<KeptCase> kept_cases(const Options& options) {
  std::vector<KeptCase> kept = read_kept_cases(regressions_folder());
  for (const std::string& folder : options.regressions) add_kept(kept, read_kept_cases(folder));
  if (!options.report.empty() && options.run.shards == 1)
    add_kept(kept, failures_beside(options.report));
  return kept;
}

// Readings that CLI11 leaves to us. Everything wrong is said before anything runs.
void complete(Options& options) {
  if (options.run.resume && options.report.empty())
    throw Error("KV4003", "--resume needs the report of the run to go on with",
                "add --report DIR, the folder of the run that was interrupted");
  RunOptions& run = options.run;
  if (run.subjects.empty()) run.subjects = {"reference"};
  choose_properties(options.properties, run);
  run.models.assign(options.models.begin(), options.models.end());
  require_stored_can_run(run);
  run.size = *case_size(options.size);
  const Shard shard = parse_shard(options.shard);
  run.shard = shard.index;
  run.shards = shard.count;
  run.report = options.report;
  run.commit = commit();
  if (!options.known_failures.empty()) run.known = read_known_failures(options.known_failures);
  run.kept = kept_cases(options);
}

// A whole check also verifies what is stored. Chosen properties, given models and all shards but
// the first are parts of one.
bool verifies(const StoredCheck& check, const std::string& subject, const RunOptions& run) {
  if (run.shard != 1 || !check.takes(subject)) return false;
  if (!run.stored.empty()) return contains(run.stored, check.name);
  return run.properties.empty() && run.models.empty();
}

void add_stored_results(const RunOptions& run, RunSummary& summary, ProgressLine& progress) {
  for (const std::string& subject : run.subjects)
    for (const StoredCheck& check : stored_checks()) {
      if (!verifies(check, subject, run)) continue;
      if (*run.stop) {
        summary.interrupted = true;
        summary.complete = false;
        return;
      }
      progress.say(check.name);
      summary.results.push_back(check.verify(subject, listed_for(run.known, check.name, subject)));
      run.on_result(summary.results.back());
    }
}

// Runs a last part of the check. Where it fails, the report says so too: its exit code is the one
// that the program returns.
template <typename Part>
void recorded(const RunOptions& run, RunSummary& summary, Part part) {
  const auto record = [&](ExitCode code) {
    summary.ended_with = static_cast<int>(code);
    summary.complete = false;
    if (!run.report.empty()) write_report(summary, run.report);
  };
  try {
    part();
  } catch (const HarnessError&) {
    record(ExitCode::harness_failed);
    throw;
  } catch (const Error&) {
    record(ExitCode::bad_input);
    throw;
  } catch (const std::filesystem::filesystem_error&) {
    record(ExitCode::bad_input);
    throw;
  } catch (const std::exception&) {
    record(ExitCode::harness_failed);
    throw;
  }
}

void print_summary(const RunSummary& summary, const RunOptions& run, int code) {
  print("\n{}{}{}{}", summary_table(summary), held_against(summary), missing_coverage(summary),
        unasked_known_failures(summary));
  if (run.report.empty())
    write_out(kept_failures(summary));
  else
    print("report: {}\n", run.report.string());
  write_out(last_line(summary, code));
  announce_to_github(summary);
}

ExitCode check(Options& options) {
  complete(options);
  RunOptions& run = options.run;
  if (options.list) {
    require_valid(run);
    write_out(property_list());
    return ExitCode::conforms;
  }
  ProgressLine progress;
  run.stop = &stop_on_interrupt();
  run.on_progress = [&](const Progress& now) { progress.update(now); };
  run.on_result = [&](const PropertyResult& result) {
    progress.finished(result);
    write_out(failure_text(result));
  };
  RunSummary summary = run_properties(run);
  recorded(run, summary, [&] {
    add_stored_results(run, summary, progress);
    progress.clear();
    if (!run.report.empty()) write_report(summary, run.report);
    print_summary(summary, run, exit_code(summary));
    finish_output();
  });
  return static_cast<ExitCode>(exit_code(summary));
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
  app.add_option("--property", options.properties, "run this property only; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--known-failures", options.known_failures,
                 "ledger of failures that need not fail the run")
      ->type_name("FILE");
  app.add_option("--regressions", options.regressions,
                 "run the cases in this folder first, e.g. failures/ of a report; repeatable")
      ->allow_extra_args(false)
      ->type_name("DIR");
  app.add_flag("--list", options.list, "list the properties and stop");
}

void add_how_much(CLI::App& app, Options& options) {
  RunOptions& run = options.run;
  app.add_option("--cases", run.cases, "generated cases for each property")
      ->check(whole_number(1))
      ->type_name("N");
  app.add_option("--seconds", run.seconds, "time for each subject, shared among its properties")
      ->check(positive_seconds("--seconds"))
      ->type_name("S");
  app.add_option("--seed", run.seed, "seed of the generated cases")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--size", options.size, "smoke, default or deep")
      ->check(one_of("--size", {"smoke", "default", "deep"}))
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--jobs", run.jobs, "threads (default: as many as there are processors)")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  app.add_option("--shard", options.shard, "run shard I of N")->type_name("I/N");
  add_timeout(app, run.timeout);
}

}  // namespace

Action add_check(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_what_to_run(app, *options);
  add_how_much(app, *options);
  app.add_option("--report", options->report, "write the report into this new or empty folder")
      ->check([](const std::string& folder) { return folder.empty() ? "name a folder" : ""; })
      ->type_name("DIR");
  app.add_flag("--resume", options->run.resume, "go on with the interrupted run in --report");
  return [options] { return check(*options); };
}

}  // namespace kvconform::cli
