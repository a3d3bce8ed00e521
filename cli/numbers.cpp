// Validators (see numbers.h).
#include "cli/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "reference/error.h"

namespace kvconform::cli {
namespace {

constexpr double kMostSeconds = 1e9;

}  // namespace

CLI::Validator whole_number(std::uint64_t low, std::uint64_t high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool leading_zero = text.size() > 1 && text[0] == '0';
        if (error == std::errc() && stop == end && !leading_zero && value >= low && value <= high)
          return "";
        return fmt::format(
            "\"{}\" is not a whole number in decimal digits of at least {} and at most {}", text,
            low, high);
      },
      "");
}

CLI::Validator positive_seconds(const std::string& option) {
  return CLI::Validator(
      [option](std::string& text) -> std::string {
        const char* end = text.data() + text.size();
        double value = 0;
        const auto [stop, error] =
            std::from_chars(text.data(), end, value, std::chars_format::fixed);
        const bool digits = text.find_first_not_of("0123456789.") == std::string::npos;
        if (digits && error == std::errc() && stop == end && value > 0 && value <= kMostSeconds)
          return "";
        throw Error(
            "KV4003", fmt::format("{} does not take \"{}\" for a time", option, text),
            "give seconds as a decimal number above 0 and up to 1000000000, e.g. 90 or 0.5");
      },
      "");
}

}  // namespace kvconform::cli
