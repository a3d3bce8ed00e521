// Comparing counts and times, see bench_comparison.h.
#include "bench/bench_comparison.h"

#include <algorithm>

#include "bench/counters.h"

namespace kvconform::bench {
namespace {

constexpr std::size_t kFewestRepetitions = 6;  // below, no p-value can be small enough
constexpr double kNarrow = 0.01;               // an interval that no gate calls too wide

void compare_entry(const Entry& before, const Entry& after, CountComparison& all) {
  for (const Counter& counter : exact_counters()) {
    if (!before.has(counter.name) && !after.has(counter.name)) continue;
    ++all.compared;
    const double old_value = before.counter(counter.name), now = after.counter(counter.name);
    if (old_value != now)
      all.changes.push_back(
          {before.name, counter.name, old_value, now, counter.gated && now > old_value});
  }
}

std::vector<std::string> names_of(const Results& results) {
  std::vector<std::string> names;
  for (const Entry& entry : results.entries)
    if (std::find(names.begin(), names.end(), entry.name) == names.end())
      names.push_back(entry.name);
  return names;
}

/// Times of the emulation are no times of a kernel.
bool timed(const Entry& entry) {
  return entry.error.empty() && entry.label.empty() && entry.cpu_nanoseconds > 0;
}

TimeChange unpaired_change(const std::string& name, const std::vector<double>& before,
                           const std::vector<double>& after) {
  TimeChange change{name, median(before), median(after), {}, 1, 1, 0, 0};
  const double ratio = change.after / change.before;
  change.ratio = {ratio, ratio, ratio};
  if (std::min(before.size(), after.size()) < kFewestRepetitions) return change;
  change.ratio = ratio_of_medians(before, after, kConfidence);
  change.p = mann_whitney(before, after).p;
  change.noise = std::max(spread(before) / change.before, spread(after) / change.after);
  change.rounds = std::min(before.size(), after.size());
  return change;
}

}  // namespace

bool CountComparison::regressed() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const CountChange& change) { return change.regression; });
}

CountComparison compare_counts(const Results& before, const Results& after) {
  CountComparison all;
  for (const std::string& name : names_of(before)) {
    if (const Entry* now = after.find(name))
      compare_entry(*before.find(name), *now, all);
    else
      all.only_before.push_back(name);
  }
  for (const std::string& name : names_of(after))
    if (!before.find(name)) all.only_after.push_back(name);
  return all;
}

bool TimeChange::significant() const {
  return rounds > 0 && adjusted_p < kFalseAlarms && (ratio.low > 1 || ratio.high < 1);
}

bool TimeChange::slower_by_more_than(double percent) const {
  return significant() && ratio.low > 1 + percent / 100;
}

bool TimeChange::decides(double gate) const {
  if (gate < 0) return uncertainty() <= kNarrow;
  return ratio.low > 1 + gate / 100 || ratio.high <= 1 + gate / 100;
}

bool TimeChange::too_noisy_for(double gate) const {
  if (slower_by_more_than(gate)) return false;
  if (rounds == 0) return true;
  return ratio.high > 1 + gate / 100 && uncertainty() > std::max(gate / 100, kNarrow);
}

TimeChange paired_change(const std::string& name, const std::vector<double>& before,
                         const std::vector<double>& after, int looks) {
  TimeChange change{name, median(before), median(after), {}, 1, 1, 0, before.size()};
  change.ratio = paired_ratio(before, after, 1 - (1 - kConfidence) / looks);
  change.p = std::min(1.0, looks * paired_mann_whitney(before, after).p);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < before.size(); ++i) ratios.push_back(after[i] / before[i]);
  change.noise = spread(ratios);
  return change;
}

std::vector<TimeChange> compare_times(const Results& before, const Results& after) {
  std::vector<TimeChange> changes;
  for (const std::string& name : names_of(before)) {
    const Entry* now = after.find(name);
    if (!now || !timed(*now) || !timed(*before.find(name))) continue;
    changes.push_back(unpaired_change(name, before.times_of(name), after.times_of(name)));
  }
  adjust_for_many(changes);
  return changes;
}

void adjust_for_many(std::vector<TimeChange>& changes) {
  std::vector<double> p;
  for (const TimeChange& change : changes)
    if (change.rounds > 0) p.push_back(change.p);
  const std::vector<double> adjusted = holm(p);
  std::size_t k = 0;
  for (TimeChange& change : changes)
    if (change.rounds > 0) change.adjusted_p = adjusted[k++];
}

}  // namespace kvconform::bench
