// The report of a comparison: gates, counts that moved, times with their intervals.
#include <fmt/format.h>

#include <algorithm>

#include "bench/plot.h"
#include "bench/report.h"
#include "bench/report_sharing.h"
#include "reference/counted.h"

namespace kvconform::bench {
namespace {

bool any_slower(const Comparison& comparison, double percent) {
  return std::any_of(comparison.times.begin(), comparison.times.end(),
                     [&](const TimeChange& t) { return t.slower_by_more_than(percent); });
}

/// The end of a name, as much as has room beside a bar.
std::string bar_label(const std::string& name) {
  constexpr std::size_t kRoom = 36;
  return name.size() <= kRoom ? name : "…" + name.substr(name.size() - kRoom + 1);
}

Section time_section(const Comparison& comparison, const CompareFacts& facts) {
  Section section{"Times", {}, {}, {}};
  if (comparison.times.empty()) {
    section.sentences = {"No benchmark was timed in both."};
    return section;
  }
  section.sentences = {fmt::format(
      "CPU time of one thread. Ratio: new by old, with a {:.0f} % bootstrap interval. p: "
      "Mann–Whitney, corrected for the number of benchmarks; a change counts where p is below {} "
      "and the interval leaves out 1. Both hold for all looks at the rounds together. Noise: what "
      "the ratio spreads by from round to round. Times of cuda/ are those of the emulation.",
      100 * kConfidence, kFalseAlarms)};
  Table table{
      {"benchmark", "old", "new", "ratio", "interval", "p", "noise", "rounds", "verdict"}, {}, 1};
  BarPlot plot{"Before and after", "time, new by old, with its interval", {}, 1};
  for (const TimeChange& t : comparison.times) {
    const bool tested = t.rounds > 0;
    table.rows.push_back({t.benchmark, time_text(t.before), time_text(t.after),
                          fmt::format("{:.3f}", t.ratio.middle),
                          tested ? fmt::format("{:.3f} to {:.3f}", t.ratio.low, t.ratio.high) : "-",
                          tested ? fmt::format("{:.2g}", t.adjusted_p) : "-",
                          tested ? fmt::format("{:.1f} %", 100 * t.noise) : "-",
                          fmt::format("{}", t.rounds), verdict_of(t, facts)});
    plot.bars.push_back({bar_label(t.benchmark), t.ratio.middle,
                         fmt::format("{:.3f}", t.ratio.middle), tested ? t.ratio.low : 0,
                         tested ? t.ratio.high : 0});
  }
  section.tables = {table};
  section.plots = {svg(plot)};
  return section;
}

std::string change_text(const CountChange& change) {
  if (change.before == 0) return "new";
  return fmt::format("{:+.2f} %", 100 * (change.after / change.before - 1));
}

Section count_section(const Comparison& comparison) {
  const CountComparison& counts = comparison.counts;
  Section section{"Exact counts", {}, {}, {}};
  section.sentences = {fmt::format("{} compared, {} moved. They are exact: a difference is a fact.",
                                   counted(counts.compared, "number"), counts.changes.size())};
  for (const std::string& name : counts.only_before)
    section.sentences.push_back("Only in the old results: " + name);
  for (const std::string& name : counts.only_after)
    section.sentences.push_back("Only in the new results: " + name);
  if (counts.changes.empty()) return section;
  Table table{{"benchmark", "count", "old", "new", "by", ""}, {}, 2};
  for (const CountChange& change : counts.changes)
    table.rows.push_back({change.benchmark, change.counter, fmt::format("{:.10g}", change.before),
                          fmt::format("{:.10g}", change.after), change_text(change),
                          change.regression ? "more" : ""});
  section.tables = {table};
  return section;
}

}  // namespace

bool missed_a_gate(const Comparison& comparison, const CompareFacts& facts) {
  return !comparison.wrong.empty() ||
         (facts.gate_counts &&
          (comparison.counts.regressed() || !comparison.counts.only_before.empty())) ||
         (facts.gate >= 0 && any_slower(comparison, facts.gate));
}

bool too_noisy(const Comparison& comparison, const CompareFacts& facts) {
  return facts.gate >= 0 &&
         std::any_of(comparison.times.begin(), comparison.times.end(),
                     [&](const TimeChange& t) { return t.too_noisy_for(facts.gate); });
}

std::string verdict_of(const TimeChange& change, const CompareFacts& facts) {
  if (facts.gate >= 0 && change.slower_by_more_than(facts.gate)) return "too slow";
  if (change.rounds == 0) return "one run each: no test";
  if (facts.gate >= 0 && change.too_noisy_for(facts.gate))
    return fmt::format("inconclusive: interval ±{:.1f} % is too wide for the gate",
                       100 * change.uncertainty());
  if (!change.significant()) return "no change";
  return change.ratio.middle > 1 ? "slower" : "faster";
}

Document compare_document(const Comparison& comparison, const CompareFacts& facts) {
  const bool missed = missed_a_gate(comparison, facts), noisy = too_noisy(comparison, facts);
  const auto changed = std::count_if(comparison.times.begin(), comparison.times.end(),
                                     [](const TimeChange& t) { return t.significant(); });
  Document document;
  document.good = !missed && !noisy;
  document.title = missed  ? "Comparison: a gate was missed"
                   : noisy ? "Comparison: inconclusive, times are too noisy for the gate"
                           : fmt::format("Comparison: {} moved, {} changed",
                                         counted(comparison.counts.changes.size(), "count"),
                                         counted(changed, "time"));
  document.subtitle = fmt::format("old: {} · new: {}", facts.before, facts.after);
  Section wrong{"Wrong results", comparison.wrong, {}, {}};
  if (!comparison.wrong.empty()) document.sections.push_back(wrong);
  document.sections.push_back(count_section(comparison));
  document.sections.push_back(time_section(comparison, facts));
  Section machine{"Machine", {}, {}, {}};
  for (const std::string& warning : facts.warnings)
    machine.sentences.push_back("Beware: " + warning + ".");
  if (!machine.sentences.empty()) document.sections.push_back(machine);
  return document;
}

}  // namespace kvconform::bench
