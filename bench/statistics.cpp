// Rank tests and the bootstrap, see statistics.h.
#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/random.h"

namespace kvconform::bench {
namespace {

using Values = std::vector<double>;

constexpr std::size_t kExactValues = 25;  // Mann–Whitney by counting arrangements
constexpr int kResamples = 10'000;

double u_statistic(const Values& a, const Values& b) {
  double u = 0;
  for (double x : a)
    for (double y : b) u += y > x ? 1 : y == x ? 0.5 : 0;
  return u;
}

bool has_ties(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  return std::adjacent_find(a.begin(), a.end()) != a.end();
}

/// How many of the arrangements of m and n values have each U: the recurrence of Mann and Whitney,
/// N(u; m, n) = N(u − n; m − 1, n) + N(u; m, n − 1), as probabilities.
Values distribution_of_u(std::size_t m, std::size_t n) {
  std::vector<Values> row(n + 1, Values(m * n + 1, 0));
  for (std::size_t j = 0; j <= n; ++j) row[j][0] = 1;  // m = 0
  for (std::size_t i = 1; i <= m; ++i) {
    std::vector<Values> next(n + 1, Values(m * n + 1, 0));
    next[0][0] = 1;
    for (std::size_t j = 1; j <= n; ++j)
      for (std::size_t u = 0; u <= i * j; ++u) {
        const double last_of_a = double(i) / double(i + j);
        next[j][u] = (u >= j ? last_of_a * row[j][u - j] : 0) + (1 - last_of_a) * next[j - 1][u];
      }
    row = std::move(next);
  }
  return row[n];
}

double exact_p(double u, std::size_t m, std::size_t n) {
  const Values probability = distribution_of_u(m, n);
  const auto tail = static_cast<std::size_t>(std::min(u, double(m * n) - u));
  double p = 0;
  for (std::size_t i = 0; i <= tail; ++i) p += probability[i];
  return std::min(1.0, 2 * p);
}

/// Σ (t³ − t) over groups of t equal values.
double tie_term(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  double sum = 0;
  for (auto begin = a.begin(); begin != a.end();) {
    const auto end = std::upper_bound(begin, a.end(), *begin);
    const double t = double(end - begin);
    sum += t * t * t - t;
    begin = end;
  }
  return sum;
}

double normal_p(double u, const Values& a, const Values& b) {
  const double m = double(a.size()), n = double(b.size()), all = m + n;
  const double variance = m * n / 12 * (all + 1 - tie_term(a, b) / (all * (all - 1)));
  if (!(variance > 0)) return 1;  // all values are equal
  const double distance = std::max(0.0, std::fabs(u - m * n / 2) - 0.5);
  return std::erfc(distance / std::sqrt(2 * variance));
}

/// Signed ranks of the pairs' log ratios, doubled so that they are whole numbers.
std::vector<long> signed_ranks(const Values& a, const Values& b) {
  const std::size_t n = a.size();
  Values size(n);
  for (std::size_t i = 0; i < n; ++i) size[i] = std::fabs(std::log(b[i] / a[i]));
  std::vector<long> ranks(n);
  for (std::size_t i = 0; i < n; ++i) {
    long below = 0, equal = 0;
    for (double other : size) {
      below += other < size[i];
      equal += other == size[i];
    }
    ranks[i] = size[i] == 0 ? 0 : (2 * below + equal + 1) * (b[i] > a[i] ? 1 : -1);
  }
  return ranks;
}

/// Share of the 2^n swaps whose sum of signed ranks is at least as far from 0. `sums[t]`: the share
/// of swaps in which the ranks that count as positive add up to t.
double swap_p(const std::vector<long>& ranks) {
  long all = 0, seen = 0;
  for (long rank : ranks) {
    all += std::labs(rank);
    seen += rank;
  }
  Values sums(static_cast<std::size_t>(all) + 1, 0);
  sums[0] = 1;
  for (long rank : ranks)
    for (long t = all; t >= 0; --t) {
      const long without = t - std::labs(rank);
      sums[t] = (sums[t] + (without >= 0 ? sums[without] : 0)) / 2;
    }
  double p = 0;
  for (long t = 0; t <= all; ++t)
    if (std::labs(2 * t - all) >= std::labs(seen)) p += sums[t];
  return std::min(1.0, p);
}

template <class Statistic>
Interval percentiles(double middle, double confidence, Statistic resampled) {
  RandomStream random(stream_key(4, "bootstrap"));
  Values values(kResamples);
  for (double& value : values) value = resampled(random);
  std::sort(values.begin(), values.end());
  const double outside = (1 - confidence) / 2 * (kResamples - 1);
  return {values[static_cast<std::size_t>(std::floor(outside))], middle,
          values[static_cast<std::size_t>(std::ceil(kResamples - 1 - outside))]};
}

Values drawn(const Values& from, RandomStream& random) {
  Values values(from.size());
  for (double& value : values) value = from[random.below(from.size())];
  return values;
}

}  // namespace

double median(Values values) {
  if (values.empty()) return 0;
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  if (values.size() % 2 == 1) return values[half];
  return (values[half] + *std::max_element(values.begin(), values.begin() + half)) / 2;
}

double spread(const Values& values) {
  const double middle = median(values);
  Values distances;
  for (double value : values) distances.push_back(std::fabs(value - middle));
  return 1.4826 * median(std::move(distances));  // 1/Φ⁻¹(3/4)
}

RankTest mann_whitney(const Values& a, const Values& b) {
  if (a.empty() || b.empty()) return {};
  const double u = u_statistic(a, b);
  const bool exact = a.size() <= kExactValues && b.size() <= kExactValues && !has_ties(a, b);
  return {u, exact ? exact_p(u, a.size(), b.size()) : normal_p(u, a, b)};
}

RankTest paired_mann_whitney(const Values& a, const Values& b) {
  if (a.empty() || a.size() != b.size()) return {};
  Values level_a, level_b;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double level = std::sqrt(a[i] * b[i]);
    level_a.push_back(a[i] / level);
    level_b.push_back(b[i] / level);
  }
  return {u_statistic(level_a, level_b), swap_p(signed_ranks(a, b))};
}

Interval paired_ratio(const Values& a, const Values& b, double confidence) {
  Values ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(b[i] / a[i]);
  return percentiles(median(ratios), confidence,
                     [&](RandomStream& random) { return median(drawn(ratios, random)); });
}

Interval ratio_of_medians(const Values& a, const Values& b, double confidence) {
  return percentiles(median(b) / median(a), confidence, [&](RandomStream& random) {
    const double before = median(drawn(a, random));
    return median(drawn(b, random)) / before;
  });
}

Values holm(const Values& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(), [&](auto i, auto j) { return p[i] < p[j]; });
  Values adjusted(p.size());
  double highest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    highest = std::max(highest, std::min(1.0, double(p.size() - k) * p[order[k]]));
    adjusted[order[k]] = highest;
  }
  return adjusted;
}

}  // namespace kvconform::bench
