// The statistics of comparisons. Nothing here assumes a distribution of times: ranks, medians,
// swaps of labels and resampling only. Random numbers are portable, so a result can be computed
// again from the same times.
#pragma once

#include <cstdint>
#include <vector>

namespace kvconform::bench {

double median(std::vector<double> values);
/// Median distance from the median, scaled to estimate a standard deviation of normal values.
double spread(const std::vector<double>& values);

struct RankTest {
  double u = 0;  ///< pairs (a, b) with b > a, ties half
  double p = 1;  ///< two-sided
};

/// Mann and Whitney's test of two independent samples: exact where there are no ties and at most
/// 25 values each, else by the normal approximation with corrections for ties and continuity.
RankTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b);

/// The same statistic for pairs (a[i], b[i]) that were measured together: each value is divided by
/// its pair's geometric mean, so that the moods of the machine between pairs cancel, and p comes
/// from swapping a and b within pairs (all 2^n swaps, exact): under "no
/// difference" every swap is as likely as what was seen. Equivalent to Wilcoxon's signed ranks.
RankTest paired_mann_whitney(const std::vector<double>& a, const std::vector<double>& b);

struct Interval {
  double low = 0, middle = 0, high = 0;
};

/// Ratio b/a with a bootstrap interval (percentiles of `confidence`, e.g. 0.99).
/// Paired: median of the pairs' ratios, pairs resampled. Else ratio of medians, both resampled.
Interval paired_ratio(const std::vector<double>& a, const std::vector<double>& b,
                      double confidence);
Interval ratio_of_medians(const std::vector<double>& a, const std::vector<double>& b,
                          double confidence);

/// Holm's correction for having looked at many p-values: the chance of a single false alarm among
/// them is bounded by the level that the corrected ones are held to.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace kvconform::bench
