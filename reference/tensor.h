// Tensors as they lie in a checkpoint: a number format, a shape and a pointer into memory that
// somebody else owns (a mapped file or a TensorTable). Nothing is converted or copied here.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvconform {

enum class Dtype { f32, f16, bf16 };

int byte_size(Dtype dtype);
const char* to_string(Dtype dtype);  ///< "F32", "F16", "BF16": the names in a safetensors header

/// "[3, 4]", as messages print a shape.
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Row-major array. `data` is aligned to the size of one number.
struct TensorView {
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
  std::int64_t count() const;  ///< product of the shape
  std::int64_t rows() const { return shape.empty() ? 1 : shape.front(); }
  std::int64_t cols() const {
    return rows() == 0 ? 0 : count() / rows();
  }  ///< all but the first axis
};

// Conversions between the formats, rounding to nearest even; NaN stays NaN (its payload too, where
// it fits), infinities stay. Inline: weights are widened where they are used.

inline float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline std::uint16_t narrow_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t top = bits >> 16;
  if ((bits & 0x7fffffffU) >
      0x7f800000U)  // NaN whose payload lies in the dropped half: must not become infinity
    return static_cast<std::uint16_t>((top & 0x7fU) == 0 ? top | 0x40U : top);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (top & 1U)) >> 16);
}

float widen_f16(std::uint16_t bits);
std::uint16_t narrow_f16(float value);

/// Element `index` of a tensor of any format, widened to float (always exact).
float element(const TensorView& tensor, std::int64_t index);

/// Named tensors and whatever keeps their memory alive.
struct TensorTable {
  std::map<std::string, TensorView> tensors;
  std::vector<std::shared_ptr<const void>> keep_alive;

  /// Adds (or replaces) a tensor with zeroed memory of its own and returns that memory (count ·
  /// byte_size bytes).
  std::byte* add(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape);
};

}  // namespace kvconform
