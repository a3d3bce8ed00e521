// Rotary position embedding, half split: for i < D/2 and angle θ_i = position · f_i,
//   (x_i, x_{i+D/2}) ← (x_i cos θ_i − x_{i+D/2} sin θ_i, x_{i+D/2} cos θ_i + x_i sin θ_i).
// (Su et al. 2021; the pairing of transformers' Gemma code, not the interleaved (2i, 2i+1).)
#pragma once

#include "reference/layer_plan.h"
#include "reference/matrix.h"
#include "reference/numerics.h"

namespace kvconform {

/// Number of pairs that rotate; the partner of i stays i + D/2 also when only some do.
inline int rotating_pairs(const Rope& rope, int head_dim) {
  if (rope.kind != Rope::Kind::proportional) return head_dim / 2;
  return static_cast<int>(rope.partial_rotary_factor * head_dim) / 2;
}

/// f_i for i in [0, D/2): theta^(−2i/D), 0 for pairs that do not rotate, divided by `factor`.
template <class N>
std::vector<typename N::Scalar> rope_frequencies(const Rope& rope, int head_dim) {
  using S = typename N::Scalar;
  std::vector<S> frequencies(head_dim / 2, S(0));
  for (int i = 0; i < rotating_pairs(rope, head_dim); ++i) {
    frequencies[i] = S(1) / exact_pow(S(rope.theta), S(2 * i) / S(head_dim));
    if (rope.factor != 1.0) frequencies[i] = frequencies[i] / S(rope.factor);
  }
  return frequencies;
}

/// Rotates every head of one token, [heads·D], to `position`.
template <class N>
void rotate(typename N::Scalar* x, int heads, int head_dim,
            const std::vector<typename N::Scalar>& frequencies, int position) {
  using S = typename N::Scalar;
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const S angle = S(position) * frequencies[i];
    const S cosine = N::store(exact_cos(angle)), sine = N::store(exact_sin(angle));
    for (int h = 0; h < heads; ++h) {
      S& a = x[h * head_dim + i];
      S& b = x[h * head_dim + i + half];
      const S a_new = N::store(N::store(a * cosine) - N::store(b * sine));
      b = N::store(N::store(b * cosine) + N::store(a * sine));
      a = a_new;
    }
  }
}

}  // namespace kvconform
