// Validators for numbers on the command line. CLI11 alone would read 010 as eight.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace kvconform::cli {

/// Decimal digits only, no sign, no leading zero, within [low, high].
CLI::Validator whole_number(std::uint64_t low,
                            std::uint64_t high = std::numeric_limits<std::int64_t>::max());

}  // namespace kvconform::cli
