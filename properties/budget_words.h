// Shares of an error budget in words. Beyond a million times it no longer matters how far: digits
// would only look like a measurement.
#pragma once

#include <fmt/format.h>

#include <string>

namespace kvconform {

/// "3.2 times", "more than 1e6 times".
inline std::string times_of_budget(double used) {
  return used > 1e6 ? "more than 1e6 times" : fmt::format("{:.3g} times", used);
}

}  // namespace kvconform
