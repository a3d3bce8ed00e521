// Finding NaN and infinity among the weights that a model computes with. The whole checkpoint is
// read: for those about to be checked, not for every use of a real-size one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reference/checkpoint.h"

namespace kvconform {

struct NonFinite {
  std::string tensor;
  std::int64_t element = 0;  ///< index in the flattened tensor
  bool nan = false;          ///< else an infinity

  std::string text() const;  ///< "NaN in tensor model.norm.weight, element 3"
};

/// The first, in order of tensor names. Projections of consumers and other towers are not looked
/// at: no layer reads them.
std::optional<NonFinite> find_non_finite(const Checkpoint& checkpoint);

/// Bytes that find_non_finite would read.
std::uint64_t bytes_of_weights(const Checkpoint& checkpoint);

}  // namespace kvconform
