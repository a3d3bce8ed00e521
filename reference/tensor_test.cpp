// Exhaustive round trips of the 16-bit formats, rounding at the edges, and element access.
#include "reference/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace kvconform {
namespace {

// The value of a half, from the definition of the format and by another road than the code under
// test.
double half_by_definition(int bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Tensor, EveryHalfKeepsItsBitsThroughFloat) {
  for (int bits = 0; bits < 65536; ++bits)
    ASSERT_EQ(narrow_f16(widen_f16(static_cast<std::uint16_t>(bits))), bits);
}

TEST(Tensor, EveryBfloat16KeepsItsBitsThroughFloat) {
  for (int bits = 0; bits < 65536; ++bits)
    ASSERT_EQ(narrow_bf16(widen_bf16(static_cast<std::uint16_t>(bits))), bits);
}

TEST(Tensor, EveryFiniteHalfHasTheValueOfItsDefinition) {
  for (int bits = 0; bits < 65536; ++bits)
    if (((bits >> 10) & 31) != 31) {
      ASSERT_EQ(double{widen_f16(static_cast<std::uint16_t>(bits))}, half_by_definition(bits))
          << bits;
    }
}

TEST(Tensor, HalfRoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (int bits = 0; bits < 0x7bff; ++bits) {  // all pairs of neighbouring finite halves
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle =
        (widen_f16(low) + widen_f16(high)) / 2;  // exact: one bit more than a half has
    const auto even = (bits & 1) == 0 ? low : high;
    ASSERT_EQ(narrow_f16(middle), even) << bits;
    ASSERT_EQ(narrow_f16(-middle), even | 0x8000) << bits;
    ASSERT_EQ(narrow_f16(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(narrow_f16(std::nextafter(middle, 1e9F)), high) << bits;
  }
}

TEST(Tensor, Bfloat16RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {  // the last upper neighbour is infinity
    const std::uint32_t middle = bits << 16 | 0x8000U;
    ASSERT_EQ(narrow_bf16(std::bit_cast<float>(middle)), bits + (bits & 1)) << bits;
    ASSERT_EQ(narrow_bf16(std::bit_cast<float>(middle - 1)), bits) << bits;
    ASSERT_EQ(narrow_bf16(std::bit_cast<float>(middle + 1)), bits + 1) << bits;
  }
}

TEST(Tensor, WhatIsTooLargeForHalfBecomesInfinity) {
  EXPECT_EQ(narrow_f16(65519.996F), 0x7bff);
  EXPECT_EQ(narrow_f16(65520.0F), 0x7c00);
  EXPECT_EQ(narrow_f16(-3e38F), 0xfc00);
  EXPECT_EQ(narrow_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(narrow_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Tensor, NanWhosePayloadDoesNotFitStaysNan) {
  const float nan = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(widen_f16(narrow_f16(nan))));
  EXPECT_TRUE(std::isnan(widen_bf16(narrow_bf16(nan))));
}

TEST(Tensor, ElementReadsEveryFormat) {
  TensorTable table;
  const float wide = -1.5F;
  const std::uint16_t half = narrow_f16(0.25F), brain = narrow_bf16(3.0F);
  std::memcpy(table.add("a", Dtype::f32, {1, 2}) + 4, &wide, 4);
  std::memcpy(table.add("b", Dtype::f16, {2}) + 2, &half, 2);
  std::memcpy(table.add("c", Dtype::bf16, {2}) + 2, &brain, 2);
  EXPECT_EQ(element(table.tensors["a"], 0), 0.0F);
  EXPECT_EQ(element(table.tensors["a"], 1), -1.5F);
  EXPECT_EQ(element(table.tensors["b"], 1), 0.25F);
  EXPECT_EQ(element(table.tensors["c"], 1), 3.0F);
}

TEST(Tensor, ShapesCountRowsAndColumns) {
  TensorTable table;
  table.add("cube", Dtype::f32, {2, 3, 4});
  table.add("scalar", Dtype::f32, {});
  table.add("empty", Dtype::f32, {0, 4});
  EXPECT_EQ(table.tensors["cube"].rows(), 2);
  EXPECT_EQ(table.tensors["cube"].cols(), 12);
  EXPECT_EQ(table.tensors["scalar"].count(), 1);
  EXPECT_EQ(table.tensors["empty"].cols(), 0);
  EXPECT_TRUE(table.tensors["empty"]) << "an empty tensor is still a tensor";
}

TEST(Tensor, SizesThatOverflowAreRefusedBeforeAnythingIsAllocated) {
  TensorTable table;
  EXPECT_THROW(table.add("a", Dtype::f32, {1LL << 40, 1LL << 40}), std::length_error);
  EXPECT_THROW(table.add("a", Dtype::f32, {-1}), std::length_error);
  EXPECT_TRUE(table.tensors.empty());
}

}  // namespace
}  // namespace kvconform
