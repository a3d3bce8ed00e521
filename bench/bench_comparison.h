// What changed between two results: exact counts, each number that moved; times, judged by a rank
// test and a bootstrap interval. Two runs of one build never differ in a count; a difference in
// time has to be larger than what such runs differ by.
#pragma once

#include <string>
#include <vector>

#include "bench/results.h"
#include "bench/statistics.h"

namespace kvconform::bench {

struct CountChange {
  std::string benchmark, counter;
  double before = 0, after = 0;
  /// An increase of a number that is held.
  bool regression = false;
};

struct CountComparison {
  std::vector<CountChange> changes;
  std::size_t compared = 0;                          ///< numbers in both
  std::vector<std::string> only_before, only_after;  ///< benchmarks
  bool regressed() const;
};
CountComparison compare_counts(const Results& before, const Results& after);

/// Chance of one false alarm in a whole comparison, however many benchmarks it has.
inline constexpr double kFalseAlarms = 0.001;
/// Of the bootstrap intervals.
inline constexpr double kConfidence = 0.99;

struct TimeChange {
  std::string benchmark;
  double before = 0, after = 0;  ///< medians, ns of CPU
  Interval ratio;                ///< after / before
  double p = 1, adjusted_p = 1;  ///< of "no difference"; adjusted for the number of benchmarks
  double noise = 0;              ///< spread of the ratio from round to round (relative)
  std::size_t rounds = 0;        ///< 0: one run each, nothing can be said about noise
  bool significant() const;
  bool slower_by_more_than(double percent) const;
  /// Half the interval's width, relative.
  double uncertainty() const { return (ratio.high - ratio.low) / 2 / ratio.middle; }
  /// Nothing more can be expected of further rounds: the whole interval lies on one side of the
  /// gate, or, without one (below 0), is no wider than ±1 %.
  bool decides(double gate) const;
  /// Neither too slow nor shown to be fast enough, and the interval is wider than the gate (or ±1 %
  /// where that is more): noise would hide what the gate looks for.
  bool too_noisy_for(double gate) const;
};

/// Times of one benchmark, measured in pairs, looked at for at most the `looks`-th time. Interval
/// and p hold for all looks together.
TimeChange paired_change(const std::string& benchmark, const std::vector<double>& before,
                         const std::vector<double>& after, int looks = 1);
/// Times that were measured at different times: repetitions in two files.
std::vector<TimeChange> compare_times(const Results& before, const Results& after);
/// Fills in adjusted_p.
void adjust_for_many(std::vector<TimeChange>& changes);

}  // namespace kvconform::bench
