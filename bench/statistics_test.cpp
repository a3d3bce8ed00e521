// The statistics against numbers that others computed: published tables, textbook examples, and
// Boost.Math's distributions.
#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "reference/random.h"

namespace kvconform::bench {
namespace {

using Values = std::vector<double>;

Values from_to(int first, int last) {
  Values values;
  for (int i = first; i <= last; ++i) values.push_back(i);
  return values;
}

TEST(Median, is_the_middle_or_the_mean_of_the_two_middle_ones) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(Spread, of_normal_values_is_their_standard_deviation) {
  const boost::math::normal normal(10, 3);
  Values values;
  for (int i = 1; i < 2000; ++i) values.push_back(quantile(normal, i / 2000.0));
  EXPECT_NEAR(spread(values), 3, 0.01);
}

TEST(MannWhitney, has_the_probabilities_of_separated_samples) {
  // Of the C(10, 5) = 252 arrangements one is as extreme on each side.
  const RankTest test = mann_whitney(from_to(1, 5), from_to(6, 10));
  EXPECT_EQ(test.u, 25);
  EXPECT_NEAR(test.p, 2.0 / 252, 1e-12);
}

TEST(MannWhitney, has_the_critical_values_of_the_published_table) {
  // Two-sided 5 % limits of U, m = n = 8: 13; m = n = 10: 23; m = n = 20: 127. p is at most 5 % at
  // the limit and more one above it.
  struct Row {
    int n, limit;
  };
  for (const Row row : {Row{8, 13}, Row{10, 23}, Row{20, 127}}) {
    for (int excess : {0, 1}) {
      // Values of b between those of a, such that exactly `u` pairs have b > a.
      int u = row.limit + excess;
      Values a, b;
      for (int i = 0; i < row.n; ++i) a.push_back(i + 1);
      for (int j = 0; j < row.n; ++j) {
        const int above = std::min(u, row.n);
        u -= above;
        b.push_back(above + 0.5 + j * 1e-3);
      }
      const RankTest test = mann_whitney(a, b);
      EXPECT_EQ(test.u, row.limit + excess);
      EXPECT_EQ(test.p <= 0.05, excess == 0) << row.n << " " << test.p;
    }
  }
}

TEST(MannWhitney, counts_ties_half_and_is_normal_then) {
  const Values a = {1, 2, 2, 3, 5, 7, 7, 8}, b = {2, 4, 4, 6, 7, 9, 9, 10};
  const RankTest test = mann_whitney(a, b);
  EXPECT_EQ(test.u, 45);
  // Mean 32, variance 64/12·(17 − 60/240): two groups of 2 and two of 3, Σ(t³ − t) = 60.
  const double deviation = std::sqrt(64.0 / 12 * (17 - 60.0 / 240));
  const boost::math::normal normal;
  EXPECT_NEAR(test.p, 2 * cdf(complement(normal, (45 - 32 - 0.5) / deviation)), 1e-12);
}

TEST(MannWhitney, of_equal_values_sees_nothing) {
  EXPECT_EQ(mann_whitney({1, 1, 1}, {1, 1, 1}).p, 1);
  EXPECT_EQ(mann_whitney({}, {1}).p, 1);
}

TEST(PairedMannWhitney, of_one_sided_pairs_has_the_probability_of_equal_tosses) {
  // All of n pairs lean one way: 2 of 2^n swaps are as extreme.
  Values a = from_to(100, 111), b = a;
  for (double& v : b) v *= 1.05;
  EXPECT_NEAR(paired_mann_whitney(a, b).p, 2 * pdf(boost::math::binomial(12, 0.5), 12), 1e-12);
}

TEST(PairedMannWhitney, has_the_critical_value_of_the_signed_rank_table) {
  // n = 10, two-sided 5 %: the smaller rank sum is at most 8. Ratios grow with the index, so the
  // index is the rank.
  const auto p_of = [](std::vector<int> negative) {
    Values a(10, 100), b;
    for (int i = 1; i <= 10; ++i) {
      const bool below = std::find(negative.begin(), negative.end(), i) != negative.end();
      b.push_back(100 * std::exp((below ? -1 : 1) * 0.01 * i));
    }
    return paired_mann_whitney(a, b).p;
  };
  EXPECT_NEAR(p_of({8}), 50.0 / 1024, 1e-12);  // 25 subsets of 1…10 have a sum of at most 8
  EXPECT_LE(p_of({8}), 0.05);
  EXPECT_GT(p_of({9}), 0.05);
}

TEST(PairedMannWhitney, ignores_what_pairs_have_in_common) {
  Values a, b;
  for (int i = 0; i < 14; ++i) {
    const double mood = i % 2 ? 1.0 : 1.7;  // far more than the difference
    a.push_back(mood * (1 + 0.001 * i));
    b.push_back(mood * (1 + 0.001 * i) * (1.02 + 0.0001 * i));
  }
  EXPECT_LT(paired_mann_whitney(a, b).p, 0.001);
  EXPECT_GT(mann_whitney(a, b).p, 0.02);
}

TEST(PairedMannWhitney, is_exact_for_many_pairs_and_counts_ties) {
  EXPECT_NEAR(paired_mann_whitney(Values(40, 1), Values(40, 2)).p, std::ldexp(2.0, -40), 1e-24);
  // Four equal ratios, three up: the sums 4 and 2 of ±1 … as far as 2: 10 of 16 swaps.
  EXPECT_NEAR(paired_mann_whitney({1, 1, 1, 2}, {2, 2, 2, 1}).p, 10.0 / 16, 1e-12);
  EXPECT_EQ(paired_mann_whitney({1, 2}, {1, 2}).p, 1);
}

TEST(PairedMannWhitney, raises_a_false_alarm_no_oftener_than_its_level) {
  RandomStream random(stream_key(5, "same"));
  int alarms = 0;
  constexpr int tries = 400;
  for (int t = 0; t < tries; ++t) {
    Values a, b;
    for (int i = 0; i < 10; ++i) {
      a.push_back(100 + 1e-3 * random.between(0, 10000));
      b.push_back(100 + 1e-3 * random.between(0, 10000));
    }
    alarms += paired_mann_whitney(a, b).p <= 0.05;
  }
  // 5 % of 400 are 20; a binomial exceeds 38 once in 20,000.
  EXPECT_LE(alarms, quantile(complement(boost::math::binomial(tries, 0.05), 5e-5)));
  EXPECT_GE(alarms, 4);  // nor never
}

TEST(Bootstrap, holds_the_true_ratio_and_shrinks_with_more_pairs) {
  const auto interval = [](int pairs) {
    RandomStream random(stream_key(6, "ratio"));
    Values a, b;
    for (int i = 0; i < pairs; ++i) {
      const double mood = 1 + 1e-3 * random.between(0, 500);
      a.push_back(mood * (1 + 1e-4 * random.between(-200, 200)));
      b.push_back(1.05 * mood * (1 + 1e-4 * random.between(-200, 200)));
    }
    return paired_ratio(a, b, 0.99);
  };
  const Interval few = interval(10), many = interval(200);
  EXPECT_LE(few.low, 1.05);
  EXPECT_GE(few.high, 1.05);
  EXPECT_LE(many.low, 1.05);
  EXPECT_GE(many.high, 1.05);
  EXPECT_LT(many.high - many.low, few.high - few.low);
  EXPECT_GT(many.low, 1.02);
}

TEST(Bootstrap, of_constant_values_is_their_ratio) {
  const Interval ratio = ratio_of_medians({2, 2, 2}, {3, 3, 3}, 0.99);
  EXPECT_EQ(ratio.low, 1.5);
  EXPECT_EQ(ratio.middle, 1.5);
  EXPECT_EQ(ratio.high, 1.5);
}

TEST(Holm, corrects_as_in_his_paper) {
  const Values adjusted = holm({0.01, 0.04, 0.03, 0.005});
  EXPECT_NEAR(adjusted[3], 0.02, 1e-15);
  EXPECT_NEAR(adjusted[0], 0.03, 1e-15);
  EXPECT_NEAR(adjusted[2], 0.06, 1e-15);
  EXPECT_NEAR(adjusted[1], 0.06, 1e-15);  // never below an earlier one
}

}  // namespace
}  // namespace kvconform::bench
