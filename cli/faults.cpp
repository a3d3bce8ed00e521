// faults: runs planted faults against the properties and says which were caught. A fault that no
// property catches is a hole in the harness.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/words.h"
#include "properties/faults/fault_matrix.h"
#include "properties/faults/matrix_report.h"
#include "properties/runner.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

constexpr double kShrinkSeconds = 5;
constexpr std::size_t kSampled = 5;  // every fifth fault is in the sample

struct Options {
  std::vector<std::string> names;
  std::string size = "default";
  std::filesystem::path report;
  MatrixOptions matrix;
  bool list = false, sample = false, shrink = false;
};

ExitCode list_faults() {
  for (const Fault& fault : all_faults())
    print("{:<36} {} ({}){}\n", fault.name, fault.description, fault.bugs,
          fault.deep ? " [size deep]" : "");
  return ExitCode::conforms;
}

std::vector<Fault> named_faults(const std::vector<std::string>& names) {
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

std::vector<Fault> chosen_faults(const Options& options) {
  if (!options.names.empty()) return named_faults(options.names);
  std::vector<Fault> chosen;
  for (std::size_t i = 0; i < all_faults().size(); ++i)
    if (!options.sample || i % kSampled == 0) chosen.push_back(all_faults()[i]);
  return chosen;
}

/// Sizes that have no late positions need not catch faults that show only there.
bool must_be_caught(const FaultResult& result, const MatrixOptions& options) {
  return options.size == CaseSize::deep || !result.fault.deep;
}

void show(const FaultResult& result, const MatrixOptions& options) {
  if (!result.judged) return;
  const char* word = result.caught()                   ? "caught"
                     : must_be_caught(result, options) ? "missed"
                                                       : "deep";
  print("{:<7} {:<36} {}\n", word, result.fault.name, catch_text(result));
}

ExitCode run_faults(Options& options) {
  if (options.list) return list_faults();
  MatrixOptions& matrix = options.matrix;
  matrix.faults = chosen_faults(options);
  matrix.size = *case_size(options.size);
  matrix.whole |= options.size == "deep";
  matrix.shrink_seconds = options.shrink ? kShrinkSeconds : 0;
  matrix.stop = &stop_on_interrupt();
  matrix.on_result = [&](const FaultResult& result) { show(result, matrix); };
  if (!options.report.empty()) open_matrix_report(options.report);
  const std::vector<FaultResult> results = run_fault_matrix(matrix);
  if (!options.report.empty()) write_matrix_report(results, matrix, options.report);
  write_out(totals_text(results, matrix));
  if (*matrix.stop) return ExitCode::interrupted;
  const bool all = std::all_of(results.begin(), results.end(), [&](const FaultResult& r) {
    return r.caught() || !must_be_caught(r, matrix);
  });
  return all ? ExitCode::conforms : ExitCode::violated;
}

}  // namespace

Action add_faults(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_flag("--list", options->list, "list the faults, one a line, and stop");
  app.add_option("--fault", options->names, "run this fault only; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("--size", options->size, "smoke, default or deep; deep fills the whole matrix")
      ->check(one_of("--size", {"smoke", "default", "deep"}))
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_flag("--matrix", options->matrix.whole,
               "ask every property, not only until one catches the fault");
  app.add_flag("--sample", options->sample, "every fifth fault only");
  app.add_flag("--shrink", options->shrink, "make each catching case smaller, five seconds each");
  app.add_option("--report", options->report,
                 "write faults.md and faults.json into this new folder")
      ->type_name("DIR");
  app.add_option("--cases", options->matrix.cases, "generated cases for each pair")
      ->check(whole_number(1))
      ->type_name("N");
  app.add_option("--seed", options->matrix.seed, "seed of the generated cases")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--jobs", options->matrix.jobs,
                 "threads (default: as many as there are processors)")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  return [options] { return run_faults(*options); };
}

}  // namespace kvconform::cli
