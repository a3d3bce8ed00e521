// Comparers let nothing pass but a proven-small difference.
#include "properties/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvconform {
namespace {

using Row = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kSubnormal = std::numeric_limits<double>::denorm_min();

bool same_bits(const Row& a, const Row& b) {
  return compare_bits(a, b).within;
}
bool within(const Row& a, const Row& b, double budget) {
  return compare_within(a, b, budget).within;
}

TEST(Comparison, EqualNumbersPassBothKinds) {
  EXPECT_TRUE(same_bits({1, -2, 0}, {1, -2, 0}));
  EXPECT_TRUE(within({1, -2, 0}, {1, -2, 0}, 0));
  EXPECT_EQ(compare_within(Row{0}, Row{0}, 0).budget_used, 0);
}

TEST(Comparison, NanOnEitherSideOrBothFails) {
  for (const auto& [a, b] : {std::pair{kNan, 1.0}, {1.0, kNan}, {kNan, kNan}}) {
    EXPECT_FALSE(same_bits({0, a}, {0, b}));
    EXPECT_FALSE(within({0, a}, {0, b}, kInf));
    EXPECT_EQ(compare_bits(Row{0, a}, Row{0, b}).reason, "NaN");
    EXPECT_EQ(compare_within(Row{0, a}, Row{0, b}, 1e300).worst, 1);
  }
}

TEST(Comparison, TheWorstNumberIsAPlace) {
  const Row expected{1, 2, 3}, seen{1, 2.5, 3.1};
  const Difference place = worst_of(compare_within(expected, seen, 0.25), expected, seen);
  EXPECT_EQ(place.part, "logits");
  EXPECT_EQ(place.dimension, 1);
  EXPECT_EQ(place.expected, 2);
  EXPECT_EQ(place.seen, 2.5);
  EXPECT_EQ(place.budget_used, 2);
  EXPECT_EQ(worst_of(compare_bits(Row{}, Row{}), {}, {}).dimension, -1);  // nothing to point at
}

TEST(Comparison, InfinityFailsEvenAgainstItself) {
  for (const auto& [a, b] : {std::pair{kInf, kInf}, {kInf, -kInf}, {kInf, 1.0}, {1.0, -kInf}}) {
    EXPECT_FALSE(same_bits({a}, {b}));
    EXPECT_FALSE(within({a}, {b}, kInf));
    EXPECT_EQ(compare_within(Row{a}, Row{b}, 1).reason, "infinity");
  }
}

TEST(Comparison, TwoNegativeNumbersAreComparedLikeAnyOthers) {
  EXPECT_FALSE(within({-5}, {-9}, 1));
  EXPECT_TRUE(within({-5}, {-5.5}, 1));
  EXPECT_FALSE(same_bits({-5}, {-9}));
}

TEST(Comparison, ZeroAsReferenceNeedsASmallNumberBesideIt) {
  EXPECT_FALSE(within({0}, {0.1}, 0.01));
  EXPECT_TRUE(within({0}, {0.001}, 0.01));
  EXPECT_FALSE(within({0}, {kSubnormal}, 0));
}

TEST(Comparison, SubnormalsDifferInBits) {
  EXPECT_FALSE(same_bits({kSubnormal}, {2 * kSubnormal}));
  EXPECT_TRUE(same_bits({kSubnormal}, {kSubnormal}));
}

TEST(Comparison, TheSignOfZeroIsABit) {
  EXPECT_FALSE(same_bits({1, 0.0}, {1, -0.0}));
  EXPECT_EQ(compare_bits(Row{1, 0.0}, Row{1, -0.0}).worst, 1);
  EXPECT_TRUE(within({0.0}, {-0.0}, 0));
}

TEST(Comparison, EmptyRowsAndOtherShapesFail) {
  EXPECT_FALSE(same_bits({}, {}));
  EXPECT_FALSE(within({}, {}, 1));
  EXPECT_FALSE(same_bits({1, 2}, {1}));
  EXPECT_FALSE(within({1, 2}, {1}, 10));
  EXPECT_EQ(compare_bits(Row{1, 2}, Row{1}).reason, "shapes differ");
}

TEST(Comparison, ABudgetThatIsNoNumberOrNegativeLetsNothingPass) {
  EXPECT_FALSE(within({1}, {1}, kNan));
  EXPECT_FALSE(within({1}, {2}, kNan));
  EXPECT_FALSE(within({1}, {1}, -1));
}

TEST(Comparison, TheWorstIndexAndTheShareOfTheBudgetAreReported) {
  const RowComparison row = compare_within(Row{1, 2, 3}, Row{1.1, 2.4, 3.2}, 0.2);
  EXPECT_FALSE(row.within);
  EXPECT_EQ(row.worst, 1);
  EXPECT_NEAR(row.budget_used, 2.0, 1e-9);
  EXPECT_NEAR(compare_within(Row{1}, Row{1.05}, 0.1).budget_used, 0.5, 1e-9);
}

TEST(Comparison, TracePlacesAreDecodedToLayerPartAndDimension) {
  const Difference plain = decode({"layer.3.attention", {2, 8}, Row(16)}, 5, 8);
  EXPECT_EQ(plain.layer, 3);
  EXPECT_EQ(plain.part, "attention");
  EXPECT_EQ(plain.dimension, 5);
  EXPECT_EQ(decode({"layer.12.output", {2, 3, 8}, Row(48)}, 17, 8).dimension, 1);
  EXPECT_EQ(decode({"per_layer_inputs", {1, 4, 2}, Row(8)}, 5, 8).layer, 2);
  EXPECT_EQ(decode({"final_norm", {1, 8}, Row(8)}, 7, 8).layer, -1);
}

TEST(Comparison, ARowOutsideATraceIsEmpty) {
  const TraceArray array{"embedding", {2, 2}, {1, 2, 3, 4}};
  EXPECT_EQ(trace_row(array, 1)[0], 3);
  EXPECT_TRUE(trace_row(array, 2).empty());
  EXPECT_TRUE(trace_row({"embedding", {}, {}}, 0).empty());
}

}  // namespace
}  // namespace kvconform
