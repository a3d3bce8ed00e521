// Root-mean-square norm: rms(x, w) = x · (mean(x²) + eps)^(−1/2) · w over the last axis, with the
// plain weight (not 1 + w); without weight where the model has none (values, router).
#pragma once

#include "reference/linear.h"

namespace kvconform {

template <class S>
S mean_square(const S* x, int n) {
  return canonical_sum<S>(n, [x](std::int64_t i) { return x[i] * x[i]; }) / S(n);
}

/// One vector of n numbers, in place; `weight` is null for the weightless norm.
template <class N>
void rms_norm_vector(typename N::Scalar* x, int n, const typename N::Scalar* weight, double eps) {
  using S = typename N::Scalar;
  const S scale = S(1) / exact_sqrt(mean_square(x, n) + S(eps));
  for (int i = 0; i < n; ++i) x[i] = N::store(weight ? x[i] * scale * weight[i] : x[i] * scale);
}

/// Each row [T, H] normalised as a whole.
template <class N>
Matrix<typename N::Scalar> rms_norm(Matrix<typename N::Scalar> x, const TensorView& weight,
                                    double eps) {
  const auto w = widened<N>(weight);
  for (int t = 0; t < x.rows; ++t) rms_norm_vector<N>(x.row(t), x.cols, w.data(), eps);
  return x;
}

/// Each head of width `head_dim` normalised on its own: [T, heads·D]. An absent weight is the
/// weightless norm.
template <class N>
void rms_norm_heads(Matrix<typename N::Scalar>& x, int head_dim, const TensorView& weight,
                    double eps) {
  const auto w = weight ? widened<N>(weight) : std::vector<typename N::Scalar>();
  for (int t = 0; t < x.rows; ++t)
    for (int begin = 0; begin < x.cols; begin += head_dim)
      rms_norm_vector<N>(x.row(t) + begin, head_dim, weight ? w.data() : nullptr, eps);
}

}  // namespace kvconform
