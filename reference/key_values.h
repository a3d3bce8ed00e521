// Keys and values as attention reads them: positions that lie one after the other.
#pragma once

#include <cstddef>

namespace kvconform {

/// Keys and values of consecutive positions, [count, nK, D] each, rotated and normed. A view: it
/// lives as long as the storage behind it and never through a call that changes that.
template <class S>
struct KeyValues {
  int first = 0;  ///< position of the first entry
  int count = 0;
  int width = 0;  ///< nK·D
  const S* keys = nullptr;
  const S* values = nullptr;

  const S* key(int position) const { return keys + std::size_t(position - first) * width; }
  const S* value(int position) const { return values + std::size_t(position - first) * width; }
};

}  // namespace kvconform
