// bench compare: what changed between two results, or between two builds that take turns.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/interleaved.h"
#include "bench/programs.h"
#include "bench/report.h"
#include "bench/report_sharing.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "properties/temporary_folder.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

using namespace kvconform::bench;
using Path = std::filesystem::path;

struct Options {
  std::string before, after, report, gate, filter;
  bool gate_counts = false;
  Interleaving turns;
};

/// What two builds are timed on unless a filter says otherwise: the paths that users wait for.
constexpr const char* kTimed = "reference/(small|kernels)/";

double read_percent(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value < 1e6))
    throw Error("KV4003", fmt::format("--gate does not take \"{}\"", text),
                "give a percentage of 0 or more, e.g. --gate 2");
  return value;
}

void add_wrong(const Results& results, const std::string& of, Comparison& comparison) {
  for (const Entry& entry : results.entries)
    if (!entry.error.empty())
      comparison.wrong.push_back(fmt::format("{} in {}: {}", entry.name, of, entry.error));
}

Results counts_of_build(const Path& folder, const std::string& filter, const Path& scratch) {
  const Programs programs = programs_of(folder);
  if (!std::filesystem::exists(programs.cuda)) return {};
  const auto json = run_benchmarks(programs.cuda, {"smoke", filter, 1, 0}, scratch, {});
  return results_from(json, programs.cuda.string());
}

void count_builds(const Options& options, Comparison& comparison) {
  const TemporaryFolder scratch("kvconform-bench");
  write_error("counting on emulated threads\n");
  const Results before = counts_of_build(options.before, options.filter, scratch.path());
  const Results after = counts_of_build(options.after, options.filter, scratch.path());
  add_wrong(before, options.before, comparison);
  add_wrong(after, options.after, comparison);
  comparison.counts = compare_counts(before, after);
}

std::vector<std::string> common_benchmarks(const Path& before, const Path& after,
                                           const std::string& filter) {
  const ProgramRun run{"default", filter.empty() ? kTimed : filter, 1, 0};
  const auto old_names = list_benchmarks(before, run);
  std::vector<std::string> common;
  for (const std::string& name : list_benchmarks(after, run))
    if (std::find(old_names.begin(), old_names.end(), name) != old_names.end())
      common.push_back(name);
  return common;
}

/// Emulated kernels are timed only where a filter names them.
void time_builds(const Options& options, const Path& before, const Path& after,
                 Comparison& comparison) {
  for (const std::string& name : common_benchmarks(before, after, options.filter)) {
    write_error(fmt::format("taking turns: {}\n", name));
    comparison.times.push_back(run_interleaved(before, after, name, options.turns));
  }
}

Comparison compare_builds(const Options& options) {
  Comparison comparison;
  count_builds(options, comparison);
  const Programs before = programs_of(options.before), after = programs_of(options.after);
  time_builds(options, before.reference, after.reference, comparison);
  if (std::filesystem::exists(before.cuda) && std::filesystem::exists(after.cuda))
    time_builds(options, before.cuda, after.cuda, comparison);
  adjust_for_many(comparison.times);
  return comparison;
}

Comparison compare_files(const Options& options) {
  const Results before = read_results(options.before), after = read_results(options.after);
  Comparison comparison;
  add_wrong(before, options.before, comparison);
  add_wrong(after, options.after, comparison);
  comparison.counts = compare_counts(before, after);
  comparison.times = compare_times(before, after);
  return comparison;
}

Comparison compare(const Options& options) {
  const bool builds[] = {is_build_folder(options.before), is_build_folder(options.after)};
  if (builds[0] && builds[1]) return compare_builds(options);
  if (builds[0] || builds[1])
    throw Error("KV5006",
                fmt::format("{} is a build folder and {} is not",
                            builds[0] ? options.before : options.after,
                            builds[0] ? options.after : options.before),
                "compare two build folders, or two results");
  return compare_files(options);
}

void print_times(const Comparison& comparison, const CompareFacts& facts) {
  for (const TimeChange& t : comparison.times) {
    const std::string verdict = verdict_of(t, facts);
    if (t.rounds == 0) {
      print("{:<60} {:>9} -> {:>9}  {:.3f} ({})\n", t.benchmark, time_text(t.before),
            time_text(t.after), t.ratio.middle, verdict);
      continue;
    }
    const bool slow = facts.gate >= 0 && t.slower_by_more_than(facts.gate);
    print("{:<60} {:>9} -> {:>9}  {:.3f} [{:.3f}, {:.3f}] p {:.2g} noise {:.1f} % of {}  {}\n",
          t.benchmark, time_text(t.before), time_text(t.after), t.ratio.middle, t.ratio.low,
          t.ratio.high, t.adjusted_p, 100 * t.noise, t.rounds,
          slow ? coloured(verdict, Colour::red, Stream::out) : verdict);
  }
}

void print_counts(const CountComparison& counts) {
  for (const CountChange& change : counts.changes)
    print("{} {}: {:.10g} -> {:.10g}{}\n", change.benchmark, change.counter, change.before,
          change.after, change.regression ? coloured("  more", Colour::red, Stream::out) : "");
  for (const std::string& name : counts.only_before) print("only in the old: {}\n", name);
  for (const std::string& name : counts.only_after) print("only in the new: {}\n", name);
  print("{} compared, {} moved\n", counted(counts.compared, "count"), counts.changes.size());
}

nlohmann::json comparison_json(const Comparison& comparison, const CompareFacts& facts) {
  nlohmann::json json = {{"counts", nlohmann::json::array()}, {"times", nlohmann::json::array()}};
  for (const CountChange& c : comparison.counts.changes)
    json["counts"].push_back({{"benchmark", c.benchmark},
                              {"counter", c.counter},
                              {"before", c.before},
                              {"after", c.after},
                              {"regression", c.regression}});
  for (const TimeChange& t : comparison.times)
    json["times"].push_back({{"benchmark", t.benchmark},
                             {"before", t.before},
                             {"after", t.after},
                             {"ratio", {t.ratio.low, t.ratio.middle, t.ratio.high}},
                             {"p", t.p},
                             {"adjusted_p", t.adjusted_p},
                             {"noise", t.noise},
                             {"rounds", t.rounds},
                             {"verdict", verdict_of(t, facts)},
                             {"significant", t.significant()}});
  return json;
}

ExitCode run_compare(Options& options) {
  end_on_interrupt();
  CompareFacts facts{options.before, options.after, -1, options.gate_counts, {}};
  if (!options.gate.empty()) facts.gate = options.turns.gate = read_percent(options.gate);
  if (!options.report.empty()) open_bench_report(options.report);
  facts.warnings = machine_warnings();
  const Comparison comparison = compare(options);
  print_counts(comparison.counts);
  print_times(comparison, facts);
  for (const std::string& wrong : comparison.wrong) print("wrong: {}\n", wrong);
  if (!comparison.times.empty())
    for (const std::string& warning : facts.warnings) print("beware: {}\n", warning);
  const Document document = compare_document(comparison, facts);
  print("{}\n", document.title);
  if (!options.report.empty())
    write_bench_report(options.report, document, comparison_json(comparison, facts));
  if (comparison.counts.compared == 0 && comparison.times.empty())
    return ExitCode::nothing_compared;
  if (missed_a_gate(comparison, facts)) return ExitCode::violated;
  return too_noisy(comparison, facts) ? ExitCode::nothing_compared : ExitCode::conforms;
}

}  // namespace

Action add_bench_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("OLD", options->before, "results, a report folder, or a build folder")->required();
  app.add_option("NEW", options->after, "the same of what is compared with it")->required();
  app.add_option("--gate", options->gate,
                 "exit code 1 if a benchmark is slower by more than P % with confidence, 3 if "
                 "noise does not let that be told")
      ->type_name("P");
  app.add_flag("--gate-counts", options->gate_counts, "exit code 1 if an exact count has grown");
  app.add_option("--filter", options->filter,
                 "of two builds, only benchmarks whose name matches this")
      ->type_name("REGEX");
  app.add_option("--rounds", options->turns.rounds,
                 "of two builds: fresh pairs of processes before the first look; up to four times "
                 "as many where noise asks for it")
      ->check(whole_number(6, 1000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--report", options->report, "write the report into this new or empty folder")
      ->check([](const std::string& folder) { return folder.empty() ? "name a folder" : ""; })
      ->type_name("DIR");
  return [options] { return run_compare(*options); };
}

}  // namespace kvconform::cli
