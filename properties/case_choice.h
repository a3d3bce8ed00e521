// Choices that a property makes while it judges a case: which knob to turn, which token to change.
// They follow from the case's seed and index alone, so that a replayed or shrunk case makes the
// same ones.
#pragma once

#include <cstdint>

#include "properties/case.h"

namespace kvconform {

/// A number for one purpose, the same whatever was shrunk.
std::uint64_t choice_of(const Case& test_case, const char* purpose);

/// The first entry of `items` that fits, from a place that the case chooses; null if none does.
template <class Items, class Fits>
auto choose_fitting(const Items& items, const Case& test_case, const char* purpose, Fits fits)
    -> decltype(&items[0]) {
  const std::size_t count = std::size(items);
  const std::size_t first = choice_of(test_case, purpose) % count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* item = &items[(first + i) % count];
    if (fits(*item)) return item;
  }
  return nullptr;
}

/// A model that this harness drew, whose config and weights may be drawn anew; not a checkpoint.
inline bool is_generated(const Case& test_case) {
  return test_case.model.folder.empty();
}

}  // namespace kvconform
