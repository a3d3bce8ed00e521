// Feed-forward block: down · (gelu(gate') ⊙ up), with gelu(x) = ½x(1 + tanh(√(2/π)(x +
// 0.044715x³))).
//
// Activation sparsity (Gemma 3n): gate' = max(0, gate − μ − σ·Φ⁻¹(s)), μ and σ the mean and the
// biased standard deviation of the token's gate vector. The survivors keep the shifted value; up is
// not masked.
#pragma once

#include "reference/checkpoint.h"
#include "reference/linear.h"
#include "reference/normal_quantile.h"

namespace kvconform {

/// ½(1 + tanh u) as 1 / (1 + e^(−2u)): the same, and it keeps its digits for negative x, where
/// 1 + tanh u cancels. Float32 error in the logits of gemma4-window4-default-pattern: 1.2e-4
/// instead of 2.0e-4.
template <class S>
S gelu(S x) {
  const S inner = S(0.7978845608028654) * (x + S(0.044715) * (x * x * x));  // √(2/π)
  return x / (S(1) + exact_exp(S(-2) * inner));
}

/// The probe asks what an honest engine may lose, and engines write the formula as papers do. So
/// here it is the form that cancels; with the other one, healthy float32 engines went to 2.7 times
/// their budget.
inline NoisyScalar gelu(NoisyScalar x) {
  using S = NoisyScalar;
  const S inner = S(0.7978845608028654) * (x + S(0.044715) * (x * x * x));
  return S(0.5) * x * (S(1) + exact_tanh(inner));
}

/// One token's gate vector, in place; `sparsity` s in (0, 1).
template <class N>
void sparsify(typename N::Scalar* gate, int n, double sparsity) {
  using S = typename N::Scalar;
  const S mean = N::store(canonical_sum<S>(n, [gate](std::int64_t i) { return gate[i]; }) / S(n));
  const S variance = canonical_sum<S>(n,
                                      [gate, mean](std::int64_t i) {
                                        const S d = gate[i] - mean;
                                        return d * d;
                                      }) /
                     S(n);
  const S deviation = N::store(exact_sqrt(variance));
  const S cutoff = N::store(mean + N::store(deviation * N::store(S(normal_quantile(sparsity)))));
  for (int i = 0; i < n; ++i) {
    const S shifted = N::store(gate[i] - cutoff);
    gate[i] = shifted > S(0) ? shifted : S(0);
  }
}

/// gelu(gate) ⊙ up, into gate.
template <class N>
void gated(typename N::Scalar* gate, const typename N::Scalar* up, int n) {
  for (int i = 0; i < n; ++i) gate[i] = N::store(N::store(gelu(gate[i])) * up[i]);
}

/// x [T, H] → [T, H].
template <class N>
Matrix<typename N::Scalar> mlp(const Matrix<typename N::Scalar>& x, const LayerWeights& weights,
                               double sparsity, int threads) {
  auto gate = linear<N>(x, weights.gate_proj, {}, threads);
  const auto up = linear<N>(x, weights.up_proj, {}, threads);
  for (int t = 0; t < x.rows; ++t) {
    if (sparsity > 0) sparsify<N>(gate.row(t), gate.cols, sparsity);
    gated<N>(gate.row(t), up.row(t), gate.cols);
  }
  return linear<N>(gate, weights.down_proj, {}, threads);
}

}  // namespace kvconform
