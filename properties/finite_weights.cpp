// A number is NaN or infinite exactly if all bits of its exponent are set, in each of the formats.
#include "properties/finite_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace kvconform {
namespace {

constexpr std::int64_t kBlock = 4096;

/// Without a branch inside a block, so that compilers turn it into vector instructions.
template <class Bits>
bool block_is_finite(const Bits* bits, std::int64_t count, Bits exponent) {
  unsigned found = 0;
  for (std::int64_t i = 0; i < count; ++i) found |= (bits[i] & exponent) == exponent ? 1U : 0U;
  return found == 0;
}

template <class Bits>
std::int64_t first_with_exponent(const TensorView& tensor, Bits exponent) {
  const auto* bits = reinterpret_cast<const Bits*>(tensor.data);
  const std::int64_t count = tensor.count();
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    if (block_is_finite(bits + begin, size, exponent)) continue;
    for (std::int64_t i = begin;; ++i) {
      if ((bits[i] & exponent) == exponent) return i;
    }
  }
  return -1;
}

std::int64_t first_non_finite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case Dtype::f32:
      return first_with_exponent<std::uint32_t>(tensor, 0x7f800000U);
    case Dtype::bf16:
      return first_with_exponent<std::uint16_t>(tensor, 0x7f80U);
    case Dtype::f16:
      return first_with_exponent<std::uint16_t>(tensor, 0x7c00U);
  }
  return -1;
}

template <class Visit>
void for_each_weight(const Checkpoint& checkpoint, Visit visit) {
  const LoadReport& report = checkpoint.report();
  std::set<std::string> unread(report.dead.begin(), report.dead.end());
  unread.insert(report.skipped.begin(), report.skipped.end());
  for (const auto& [name, tensor] : checkpoint.tensors().tensors) {
    if (unread.count(name) == 0 && !visit(name, tensor)) return;
  }
}

}  // namespace

std::string NonFinite::text() const {
  return fmt::format("{} in tensor {}, element {}", nan ? "NaN" : "an infinity", tensor, element);
}

std::optional<NonFinite> find_non_finite(const Checkpoint& checkpoint) {
  std::optional<NonFinite> found;
  for_each_weight(checkpoint, [&](const std::string& name, const TensorView& tensor) {
    const std::int64_t place = first_non_finite(tensor);
    if (place >= 0) found = NonFinite{name, place, std::isnan(element(tensor, place))};
    return place < 0;
  });
  return found;
}

std::uint64_t bytes_of_weights(const Checkpoint& checkpoint) {
  std::uint64_t bytes = 0;
  for_each_weight(checkpoint, [&](const std::string&, const TensorView& tensor) {
    bytes += static_cast<std::uint64_t>(tensor.count()) *
             static_cast<std::uint64_t>(byte_size(tensor.dtype));
    return true;
  });
  return bytes;
}

}  // namespace kvconform
