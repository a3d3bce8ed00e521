// Validators (see numbers.h).
#include "cli/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace kvconform::cli {

CLI::Validator whole_number(std::uint64_t low, std::uint64_t high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool leading_zero = text.size() > 1 && text[0] == '0';
        if (error == std::errc() && stop == end && !leading_zero && value >= low && value <= high)
          return "";
        return fmt::format("{} is not a whole number of at least {} and at most {}", text, low,
                           high);
      },
      "");
}

}  // namespace kvconform::cli
