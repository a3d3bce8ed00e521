// The noise probe must be off by a little everywhere, and never by making numbers that are none.
#include "reference/noisy_scalar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/mlp.h"
#include "reference/numerics.h"

namespace kvconform {
namespace {

TEST(NoisyScalar, errors_stay_within_the_unit_and_are_not_all_zero) {
  const NoiseScope scope(noise_of("float32", 1));
  double largest = 0;
  for (int i = 0; i < 1000; ++i)
    largest = std::max(largest, std::abs(double(NoisyScalar::rounded(1.0)) - 1.0));
  EXPECT_LE(largest, 0x1p-24);
  EXPECT_GT(largest, 0x1p-26);
}

TEST(NoisyScalar, infinity_stays_infinity_whatever_the_draw) {
  const NoiseScope scope(noise_of("float32", 1));
  const double infinity = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(double(NoisyScalar::rounded(infinity)), infinity);
    EXPECT_EQ(double(NoisyScalar::rounded(-infinity)), -infinity);
  }
}

TEST(NoisyScalar, gelu_of_a_gate_far_below_zero_is_zero_and_no_nan) {
  const NoiseScope scope(noise_of("float32", 1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(double(gelu(NoisyScalar(-40.0))), 0.0);
}

}  // namespace
}  // namespace kvconform
