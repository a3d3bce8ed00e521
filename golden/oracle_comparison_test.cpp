// The comparers themselves: with NaN, infinities, negatives, zeros, nothing and other shapes.
#include "golden/oracle_comparison.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvconform {
namespace {

using Values = std::vector<double>;
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(LargestDifference, IsTheLargestAndIgnoresSigns) {
  EXPECT_EQ(largest_difference(Values{1, -5, 3}, Values{1.5, -7, 3}), 2.0);
  EXPECT_EQ(largest_difference(Values{-1e9}, Values{-2e9}), 1e9);
  EXPECT_EQ(largest_difference(Values{}, Values{}), 0.0);
}

TEST(LargestDifference, IsInfiniteWhereNothingCanBeSaid) {
  EXPECT_EQ(largest_difference(Values{nan, 1}, Values{0, 1}), inf);
  EXPECT_EQ(largest_difference(Values{0, 1}, Values{0, nan}), inf);
  EXPECT_EQ(largest_difference(Values{nan}, Values{nan}), inf);
  EXPECT_EQ(largest_difference(Values{inf}, Values{inf}), inf);
  EXPECT_EQ(largest_difference(Values{1}, Values{1, 2}), inf);
}

TEST(RelativeDifference, IsMeasuredByTheExpectedValues) {
  EXPECT_EQ(relative_difference(Values{1, -8}, Values{1, -10}), 0.2);
  EXPECT_EQ(relative_difference(Values{0, 0}, Values{0, 0}), 0.0);
  EXPECT_EQ(relative_difference(Values{1e-300}, Values{0}), inf);
  EXPECT_EQ(relative_difference(Values{nan}, Values{1}), inf);
}

TEST(WorstRow, MeasuresEachRowByItsOwnLargestLogit) {
  const Logits logits{2, 2, {100, 0, 1, 0}};
  EXPECT_EQ(worst_row(logits, ExpectedArray{"F64", {2, 2}, {100, 0, 2, 0}}), 0.5);
  EXPECT_EQ(worst_row(logits, Logits{2, 2, {100, 0, 2, 0}}), 0.5);
  EXPECT_EQ(worst_row(logits, logits), 0.0);
}

TEST(WorstRow, IsInfiniteForAnotherShape) {
  const Logits logits{1, 4, {1, 2, 3, 4}};
  EXPECT_EQ(worst_row(logits, ExpectedArray{"F64", {2, 2}, {1, 2, 3, 4}}), inf);
  EXPECT_EQ(worst_row(logits, ExpectedArray{"F64", {4}, {1, 2, 3, 4}}), inf);
  EXPECT_EQ(worst_row(logits, Logits{2, 2, {1, 2, 3, 4}}), inf);
}

TEST(CompareTrace, NamesTheWorstArrayAndTheMissingOnes) {
  OracleCase oracle;
  oracle.traced_prompt = 1;
  oracle.expected = {{"0.embedding", {"F32", {1}, {9}}},
                     {"1.embedding", {"F32", {2}, {1, 2}}},
                     {"1.final_norm", {"F32", {1}, {4}}},
                     {"1.layer.0.output", {"F32", {1}, {4}}},
                     {"1.logits_f64", {"F64", {1}, {4}}}};
  const TraceComparison result =
      compare_trace({{"embedding", {2}, {1, 2}}, {"final_norm", {1}, {5}}}, oracle);
  EXPECT_EQ(result.worst, 0.25);
  EXPECT_EQ(result.where, "final_norm");
  EXPECT_EQ(result.missing, std::vector<std::string>{"layer.0.output"});
  EXPECT_EQ(compare_trace({{"embedding", {1, 2}, {1, 2}}}, oracle).worst, inf);
}

}  // namespace
}  // namespace kvconform
