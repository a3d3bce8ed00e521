// Random numbers that are the same everywhere: no std:: distributions, no std::hash.
// SplitMix64 (Steele, Lea, Flood 2014), used as a counter: number i of a stream is a pure function
// of (key, i), so that threads, shards and languages can draw any part of a stream in any order.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvconform {

constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// FNV-1a, then mixed: the key of a named stream.
constexpr std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ULL ^ mix64(seed + 0x9e3779b97f4a7c15ULL);
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(h);
}

class RandomStream {
 public:
  explicit constexpr RandomStream(std::uint64_t key) : key_(key) {}

  /// Number `index` of the stream, all 64 bits.
  constexpr std::uint64_t at(std::uint64_t index) const {
    return mix64(key_ + (index + 1) * 0x9e3779b97f4a7c15ULL);
  }
  constexpr std::uint64_t next() { return at(index_++); }

  /// Uniform in [0, bound), bound ≥ 1. The bias of the multiplication is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// Uniform in [low, high], both included.
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }

  /// Uniform in [-1, 1) on a grid of 2^-23: every value is a float.
  static constexpr float symmetric(std::uint64_t bits) {
    return static_cast<float>(static_cast<std::int32_t>(bits >> 40) - (1 << 23)) / (1 << 23);
  }

 private:
  std::uint64_t key_;
  std::uint64_t index_ = 0;
};

}  // namespace kvconform
