// Decoding by the table of well-formed byte sequences (Unicode, section 3.9, table 3-7).
#include "properties/reports/plain_text.h"

#include <cstddef>

namespace kvconform {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

bool is_within(unsigned value, unsigned low, unsigned high) {
  return value >= low && value <= high;
}

/// Bytes of the character that begins at `i`; 0 where none does.
std::size_t length_of_character(std::string_view text, std::size_t i) {
  const unsigned first = byte_at(text, i), second = byte_at(text, i + 1);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xBF;  // of the second byte: no overlong forms, no surrogates
  if (is_within(first, 0xC2, 0xDF)) length = 2;
  if (is_within(first, 0xE0, 0xEF)) length = 3;
  if (is_within(first, 0xF0, 0xF4)) length = 4;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (length == 0 || !is_within(second, low, high)) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if (!is_within(byte_at(text, i + k), 0x80, 0xBF)) return 0;
  }
  return length;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_of_character(text, i);
    const std::string_view character = text.substr(i, length);
    if (length == 0 || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") {
      plain += kReplacement;
    } else if (length == 1 && static_cast<unsigned char>(text[i]) < 0x20 && text[i] != '\n' &&
               text[i] != '\t') {
      plain += '?';
    } else {
      plain += character;
    }
    i += length == 0 ? 1 : length;
  }
  return plain;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_of_character(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace kvconform
