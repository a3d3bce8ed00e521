// The one definition of a long sum. Cut the index range every 256 elements; in a piece 16
// interleaved lanes (lane l adds elements l, l + 16, …, each product rounded before it is added),
// then the lanes folded pairwise as a tree; pieces added left to right. A plain loop over 16
// accumulators: every compiler can vectorise it at any width and no bit changes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvconform {

inline constexpr int kSumLanes = 16;
inline constexpr std::int64_t kSumPiece = 256;

/// ((l0+l8) + (l4+l12)) + … : halves are added until one lane is left. Destroys `lanes`.
template <class S>
S fold_lanes(S* lanes) {
  for (int half = kSumLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
  return lanes[0];
}

/// Σ term(i) for i in [0, n).
template <class S, class Term>
S canonical_sum(std::int64_t n, Term term) {
  S total(0);
  for (std::int64_t begin = 0; begin < n; begin += kSumPiece) {
    const std::int64_t end = std::min(n, begin + kSumPiece);
    S lanes[kSumLanes] = {};
    std::int64_t i = begin;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (int l = 0; l < kSumLanes; ++l) lanes[l] = lanes[l] + term(i + l);
    for (int l = 0; i + l < end; ++l) lanes[l] = lanes[l] + term(i + l);
    total = total + fold_lanes(lanes);
  }
  return total;
}

template <class S>
S dot(const S* a, const S* b, std::int64_t n) {
  return canonical_sum<S>(n, [a, b](std::int64_t i) { return a[i] * b[i]; });
}

/// `Count` dot products of one vector with several, each with the very order of `dot`: the shared
/// vector is loaded once.
template <int Count, class S>
void dots(const S* shared, const S* const* others, std::int64_t n, S* results) {
  for (int c = 0; c < Count; ++c) results[c] = S(0);
  for (std::int64_t begin = 0; begin < n; begin += kSumPiece) {
    const std::int64_t end = std::min(n, begin + kSumPiece);
    S lanes[Count][kSumLanes] = {};
    std::int64_t i = begin;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (int c = 0; c < Count; ++c)
        for (int l = 0; l < kSumLanes; ++l)
          lanes[c][l] = lanes[c][l] + shared[i + l] * others[c][i + l];
    for (int c = 0; c < Count; ++c) {
      for (int l = 0; i + l < end; ++l)
        lanes[c][l] = lanes[c][l] + shared[i + l] * others[c][i + l];
      results[c] = results[c] + fold_lanes(lanes[c]);
    }
  }
}

}  // namespace kvconform
