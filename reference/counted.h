// Numbers of things in sentences: "1 layer", "2 layers". Every text that a person reads and that
// counts something goes through here.
//
//   counted(n, "entry") + agreeing(n, " was", " were") + " removed"
#pragma once

#include <cstdint>
#include <string>

namespace kvconform {

/// The plural of an English noun, by the rules that our nouns follow.
inline std::string plural_of(const std::string& noun) {
  const auto ends = [&](const std::string& end) {
    return noun.size() > end.size() && noun.compare(noun.size() - end.size(), end.size(), end) == 0;
  };
  const bool after_vowel = ends("ay") || ends("ey") || ends("oy") || ends("uy");
  if (ends("y") && !after_vowel) return noun.substr(0, noun.size() - 1) + "ies";
  return noun + (ends("s") || ends("x") || ends("ch") || ends("sh") ? "es" : "s");
}

/// `noun` in the singular; of several words, the last one is the noun.
inline std::string counted(std::int64_t number, const std::string& noun) {
  return std::to_string(number) + " " + (number == 1 ? noun : plural_of(noun));
}

/// The word that goes with one, or with several.
inline const char* agreeing(std::int64_t number, const char* one, const char* several) {
  return number == 1 ? one : several;
}

}  // namespace kvconform
