// Half precision, element access and tables of tensors.
#include "reference/tensor.h"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace kvconform {

int byte_size(Dtype dtype) {
  return dtype == Dtype::f32 ? 4 : 2;
}

const char* to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "F32";
    case Dtype::f16:
      return "F16";
    case Dtype::bf16:
      return "BF16";
  }
  return "?";
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::int64_t length : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(length);
  return text + "]";
}

std::int64_t TensorView::count() const {
  std::int64_t product = 1;
  for (std::int64_t length : shape) product *= length;
  return product;
}

float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t widened = exponent == 0x1fU ? 0xffU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

std::uint16_t narrow_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const auto with_sign = [&](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };

  if (magnitude > 0x7f800000U) {  // NaN: keep the payload, but never let it vanish into infinity
    const std::uint32_t payload = (magnitude >> 13) & 0x3ffU;
    return with_sign(0x7c00U | (payload == 0 ? 0x200U : payload));
  }
  if (magnitude >= 0x477ff000U)
    return with_sign(0x7c00U);  // 65520, the tie above the largest half, and up
  if (magnitude < 0x38800000U) {
    // Below 2^-14. The sum lies in [0.5, 1), where floats are 2^-24 apart, the step of half
    // subnormals: the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return with_sign((magnitude - 0x38000000U + 0xfffU + odd) >> 13);
}

float element(const TensorView& tensor, std::int64_t index) {
  const std::byte* from = tensor.data + index * byte_size(tensor.dtype);
  if (tensor.dtype == Dtype::f32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return tensor.dtype == Dtype::f16 ? widen_f16(bits) : widen_bf16(bits);
}

std::byte* TensorTable::add(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape) {
  std::int64_t bytes = byte_size(dtype);
  for (std::int64_t length : shape)
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes))
      throw std::length_error("tensor " + name + " does not fit into memory");
  // At least one byte: an empty tensor is still a tensor, and its view must not be null.
  auto memory =
      std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes > 0 ? bytes : 1));
  std::byte* data = memory->data();
  tensors[name] = TensorView{dtype, std::move(shape), data};
  keep_alive.push_back(std::move(memory));
  return data;
}

}  // namespace kvconform
