// Validators for numbers on the command line. CLI11 alone would read 010 as eight, and take nan,
// inf and 0x1p3 for a number of seconds.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kvconform::cli {

/// Decimal digits only, no sign, no leading zero, within [low, high].
CLI::Validator whole_number(std::uint64_t low,
                            std::uint64_t high = std::numeric_limits<std::int64_t>::max());

/// A time above 0 and up to a thousand million seconds: decimal digits with at most one point.
/// Throws Error KV4003 naming option and value.
CLI::Validator positive_seconds(const std::string& option);

}  // namespace kvconform::cli
