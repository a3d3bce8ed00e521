// faults: runs planted faults against the properties and says which were caught. A fault that no
// property catches is a hole in the harness.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "properties/faults/faults.h"
#include "properties/property.h"
#include "properties/runner.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::vector<std::string> names;
  std::string size = "default";
  RunOptions run;
  bool list = false;
};

ExitCode list_faults() {
  for (const Fault& fault : all_faults())
    print("{:<36} {} ({})\n", fault.name, fault.description, fault.bugs);
  return ExitCode::conforms;
}

std::vector<Fault> chosen_faults(const std::vector<std::string>& names) {
  if (names.empty()) return all_faults();
  std::vector<std::string> known;
  for (const Fault& fault : all_faults()) known.push_back(fault.name);
  std::vector<Fault> chosen;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      throw Error("KV4012", fmt::format("there is no fault {}{}", name, did_you_mean(name, known)),
                  "kvconform faults --list shows them");
    chosen.push_back(all_faults()[static_cast<std::size_t>(found - known.begin())]);
  }
  return chosen;
}

// The property that must catch the fault comes first: the others run only if it does not.
std::vector<std::string> properties_in_order(const Fault& fault) {
  std::vector<std::string> names = {fault.caught_by};
  for (const auto& property : all_properties())
    if (property->name() != fault.caught_by) names.emplace_back(property->name());
  return names;
}

bool catches(const PropertyResult& result) {
  return result.verdict == VerdictKind::differs || result.verdict == VerdictKind::broken ||
         result.verdict == VerdictKind::flaky;
}

// One property on one fault; stops at the first failing case.
PropertyResult run_pair(RunOptions run, const Fault& fault, const std::string& property) {
  run.subjects = {"fault:" + fault.name};
  run.properties = {property};
  run.stop_at_first_failure = true;
  run.shrink_seconds = 0;
  return run_properties(run).results.at(0);
}

// The properties that catch a fault: the first one, or all of them in the whole matrix.
std::vector<std::string> caught_by(const Options& options, const Fault& fault) {
  std::vector<std::string> catching;
  for (const std::string& property : properties_in_order(fault)) {
    if (*options.run.stop) break;
    if (!catches(run_pair(options.run, fault, property))) continue;
    catching.push_back(property);
    if (options.size != "deep") break;
  }
  return catching;
}

ExitCode run_faults(Options& options) {
  if (options.list) return list_faults();
  const std::vector<Fault> faults = chosen_faults(options.names);
  ProgressLine progress;
  options.run.size = *case_size(options.size);
  options.run.stop = &stop_on_interrupt();
  options.run.on_progress = [&](const Progress& now) { progress.update(now); };
  std::size_t caught = 0;
  for (const Fault& fault : faults) {
    const std::vector<std::string> catching = caught_by(options, fault);
    progress.clear();
    if (*options.run.stop) return ExitCode::interrupted;
    caught += !catching.empty();
    print("{:<8} {:<36} {}\n", catching.empty() ? "missed" : "caught", fault.name,
          catching.empty() ? "must be caught by " + fault.caught_by : listed(catching));
  }
  print("{} of {} faults caught\n", caught, faults.size());
  return caught == faults.size() ? ExitCode::conforms : ExitCode::violated;
}

}  // namespace

Action add_faults(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_flag("--list", options->list, "list the faults, one a line, and stop");
  app.add_option("--fault", options->names, "run this fault only; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--size", options->size, "smoke, default or deep; deep fills the whole matrix")
      ->check(CLI::IsMember({"smoke", "default", "deep"}))
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--cases", options->run.cases, "generated cases for each pair")
      ->check(whole_number(1))
      ->type_name("N");
  app.add_option("--seed", options->run.seed, "seed of the generated cases")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--jobs", options->run.jobs, "threads (default: as many as there are processors)")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  return [options] { return run_faults(*options); };
}

}  // namespace kvconform::cli
