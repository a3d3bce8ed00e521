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
  for (int i = 0; i < 1000; ++i) {
    const double exact = 1.0 + i / 1000.0;
    largest = std::max(largest, std::abs(double(NoisyScalar::rounded(exact)) / exact - 1.0));
  }
  EXPECT_LE(largest, 0x1p-24);
  EXPECT_GT(largest, 0x1p-26);
}

TEST(NoisyScalar, an_error_depends_on_the_seed_and_the_result_alone) {
  const auto value = [](std::uint64_t seed) {
    const NoiseScope scope(noise_of("float32", seed));
    return double(NoisyScalar(1.25) * NoisyScalar(3.5) + NoisyScalar(0.1) * NoisyScalar(0.3));
  };
  EXPECT_EQ(value(1), value(1));
  EXPECT_NE(value(1), value(2));
}

TEST(NoisyScalar, infinity_stays_infinity_whatever_the_draw) {
  const NoiseScope scope(noise_of("float32", 1));
  const double infinity = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(double(NoisyScalar::rounded(infinity)), infinity);
    EXPECT_EQ(double(NoisyScalar::rounded(-infinity)), -infinity);
  }
}

TEST(NoisyScalar, gelu_of_a_gate_far_below_zero_costs_what_the_textbook_form_costs_and_is_no_nan) {
  for (int seed = 0; seed < 100; ++seed) {
    const NoiseScope scope(noise_of("float32", seed));
    // ½x(1 + tanh y) with tanh y = −1 off by at most 2^-24; the exact result is 0 to 300 digits.
    EXPECT_LE(std::abs(double(gelu(NoisyScalar(-40.0)))), 20.0 * 0x1p-24 * (1 + 1e-6));
  }
}

}  // namespace
}  // namespace kvconform
