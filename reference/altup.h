// AltUp (Baykal et al. 2023) as Gemma 3n has it: N streams of width H, of which a layer computes
// one (the active one) and predicts and corrects the others. Streams of T tokens are N matrices [T,
// H].
#pragma once

#include <vector>

#include "reference/checkpoint.h"
#include "reference/norm.h"

namespace kvconform {

template <class S>
using Streams = std::vector<Matrix<S>>;

/// √mean(x²) of one token, and of a projected one with its lower bound: √max(mean(x²), 1e-5). The
/// bound keeps a zero embedding row (a fresh model's pad token) from becoming 0/0 in every later
/// position.
template <class S>
S magnitude(const S* x, int n) {
  return exact_sqrt(mean_square(x, n));
}
template <class S>
S bounded_magnitude(const S* x, int n) {
  const S square = mean_square(x, n);
  return exact_sqrt(square > S(1e-5) ? square : S(1e-5));
}

/// y scaled, token by token, to the magnitude of `target`.
template <class N>
void match_magnitude(Matrix<typename N::Scalar>& y, const Matrix<typename N::Scalar>& target) {
  using S = typename N::Scalar;
  for (int t = 0; t < y.rows; ++t) {
    const S wanted = N::store(magnitude(target.row(t), target.cols));
    const S has = N::store(bounded_magnitude(y.row(t), y.cols));
    for (int i = 0; i < y.cols; ++i) y.at(t, i) = N::store(N::store(y.at(t, i) * wanted) / has);
  }
}

/// Before layer 0: stream 0 is x0, stream s its projection, scaled to the magnitude of x0.
template <class N>
Streams<typename N::Scalar> expand_streams(const Matrix<typename N::Scalar>& x0,
                                           const std::vector<TensorView>& projections,
                                           int threads) {
  Streams<typename N::Scalar> streams = {x0};
  for (const TensorView& projection : projections) {
    streams.push_back(linear<N>(x0, projection, {}, threads));
    match_magnitude<N>(streams.back(), x0);
  }
  return streams;
}

/// After the last layer: the mean of stream 0 and the others, projected back and scaled to stream
/// 0.
template <class N>
Matrix<typename N::Scalar> collapse_streams(const Streams<typename N::Scalar>& streams,
                                            const std::vector<TensorView>& projections,
                                            int threads) {
  using S = typename N::Scalar;
  Matrix<S> sum = streams[0];
  for (std::size_t s = 1; s < streams.size(); ++s) {
    Matrix<S> y = linear<N>(streams[s], projections[s - 1], {}, threads);
    match_magnitude<N>(y, streams[0]);
    add_in_place<N>(sum, y);
  }
  for (S& value : sum.values) value = N::store(value / S(static_cast<int>(streams.size())));
  return sum;
}

/// m(x) = tanh(modality_router · (rms(x, router_norm) / H)), [T, N].
template <class N>
Matrix<typename N::Scalar> modalities(const Matrix<typename N::Scalar>& x,
                                      const LayerWeights& weights, double eps) {
  using S = typename N::Scalar;
  Matrix<S> normed = rms_norm<N>(x, weights.altup_router_norm, eps);
  scale_in_place<N>(normed, S(1) / S(x.cols));
  Matrix<S> m = linear<N>(normed, weights.altup_modality_router);
  for (S& value : m.values) value = N::store(exact_tanh(value));
  return m;
}

/// pred_s = h_s + Σ_r C[s, r]·h_r, C = prediction_coefs · m(h_active) seen as [N, N] (row = output
/// stream).
template <class N>
Streams<typename N::Scalar> predict(const Streams<typename N::Scalar>& h, int active,
                                    const LayerWeights& weights, double eps) {
  using S = typename N::Scalar;
  const int n = static_cast<int>(h.size());
  const auto c = linear<N>(modalities<N>(h[active], weights, eps), weights.altup_prediction_coefs);
  Streams<S> predicted = h;
  for (int s = 0; s < n; ++s)
    for (int t = 0; t < h[0].rows; ++t)
      for (int i = 0; i < h[0].cols; ++i) {
        S sum(0);
        for (int r = 0; r < n; ++r) sum = sum + c.at(t, s * n + r) * h[r].at(t, i);
        predicted[s].at(t, i) = N::store(h[s].at(t, i) + N::store(sum));
      }
  return predicted;
}

/// new_s = pred_s + k_s·(activated − pred_active), k = correction_coefs · m(activated) + 1.
template <class N>
void correct(Streams<typename N::Scalar>& predicted, const Matrix<typename N::Scalar>& activated,
             int active, const LayerWeights& weights, double eps) {
  using S = typename N::Scalar;
  const auto k = linear<N>(modalities<N>(activated, weights, eps), weights.altup_correction_coefs);
  Matrix<S> innovation = activated;
  for (std::size_t i = 0; i < innovation.values.size(); ++i)
    innovation.values[i] = N::store(activated.values[i] - predicted[active].values[i]);
  for (std::size_t s = 0; s < predicted.size(); ++s)
    for (int t = 0; t < innovation.rows; ++t) {
      const S factor = N::store(k.at(t, static_cast<int>(s)) + S(1));
      for (int i = 0; i < innovation.cols; ++i)
        predicted[s].at(t, i) =
            N::store(predicted[s].at(t, i) + N::store(innovation.at(t, i) * factor));
    }
}

}  // namespace kvconform
