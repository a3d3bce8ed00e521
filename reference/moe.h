// Mixture of experts (Gemma 4): a softmax over all experts, the top k kept and renormalised, each
// with a scale of its own.
//
// The router sees the raw stream, not the normed one: r = softmax(proj · (rms(h) ⊙ scale ·
// H^(−1/2))). Ties go to the lower index; contributions are added in ascending expert index, so
// that a token's sum does not depend on its neighbours.
#pragma once

#include <algorithm>
#include <numeric>

#include "reference/layer_io.h"
#include "reference/mlp.h"
#include "reference/model_config.h"
#include "reference/norm.h"

namespace kvconform {

template <class S>
struct Choice {
  int expert = 0;
  S weight{};
};

/// Softmax in the scalar, over all experts, in place.
template <class S>
void softmax(S* x, int n) {
  S max = x[0];
  for (int i = 1; i < n; ++i)
    if (x[i] > max) max = x[i];
  for (int i = 0; i < n; ++i) x[i] = exact_exp(x[i] - max);
  const S sum = canonical_sum<S>(n, [x](std::int64_t i) { return x[i]; });
  for (int i = 0; i < n; ++i) x[i] = x[i] / sum;
}

/// The k largest probabilities of one token, renormalised and scaled, by ascending expert.
template <class N>
std::vector<Choice<typename N::Scalar>> choose_experts(
    const typename N::Scalar* probabilities, int experts, int k,
    const std::vector<typename N::Scalar>& expert_scale) {
  using S = typename N::Scalar;
  std::vector<int> order(experts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return probabilities[a] > probabilities[b]; });
  order.resize(k);
  S sum(0);
  for (int e : order) sum = sum + probabilities[e];
  std::sort(order.begin(), order.end());
  std::vector<Choice<S>> chosen;
  for (int e : order)
    chosen.push_back({e, N::store(N::store(probabilities[e] / sum) * expert_scale[e])});
  return chosen;
}

/// One expert on one token: down · (gelu(g) ⊙ u), [g; u] = gate_up · x.
template <class N>
Matrix<typename N::Scalar> expert(const Matrix<typename N::Scalar>& x, const LayerWeights& weights,
                                  int index, int width) {
  const auto both = linear<N>(x, slice(weights.experts_gate_up, index));
  Matrix<typename N::Scalar> gate(1, width);
  std::copy(both.row(0), both.row(0) + width, gate.row(0));
  gated<N>(gate.row(0), both.row(0) + width, width);
  return linear<N>(gate, slice(weights.experts_down, index));
}

/// Router probabilities [T, X] from the raw stream [T, H].
template <class N>
Matrix<typename N::Scalar> router_probabilities(Matrix<typename N::Scalar> h,
                                                const LayerWeights& weights, double eps,
                                                int threads) {
  using S = typename N::Scalar;
  const auto scale = widened<N>(weights.router_scale);
  const S root = N::store(S(1) / exact_sqrt(S(h.cols)));
  rms_norm_heads<N>(h, h.cols, {}, eps);
  for (int t = 0; t < h.rows; ++t)
    for (int i = 0; i < h.cols; ++i) h.at(t, i) = N::store(N::store(h.at(t, i) * scale[i]) * root);
  auto r = linear<N>(h, weights.router_proj, {}, threads);
  for (int t = 0; t < r.rows; ++t) softmax(r.row(t), r.cols);
  return r;
}

/// raw [T, H] chooses, normed [T, H] is what the chosen experts see → [T, H].
template <class N, class Decisions>
Matrix<typename N::Scalar> experts(const LayerInputs<N, Decisions>& in, const CallShape& call,
                                   const Matrix<typename N::Scalar>& raw,
                                   const Matrix<typename N::Scalar>& normed, Tracer& tracer) {
  using S = typename N::Scalar;
  const LayerWeights& weights = in.attention.weights;
  const auto& decisions = in.attention.decisions;
  const auto expert_scale = widened<N>(weights.router_per_expert_scale);
  const auto r = router_probabilities<N>(decisions.router_reads_raw_stream() ? raw : normed,
                                         weights, in.config.rms_norm_eps, in.attention.threads);
  tracer.record(in.attention.layer.layer, "router", r);
  const int taken = decisions.experts_taken(in.config, call);
  Matrix<S> out(raw.rows, raw.cols);
  Matrix<S> x(1, raw.cols);
  for (int t = 0; t < raw.rows; ++t) {
    std::copy(normed.row(t), normed.row(t) + normed.cols, x.row(0));
    std::fill(out.row(t), out.row(t) + out.cols, S(0));
    for (const auto& choice : choose_experts<N>(r.row(t), r.cols, taken, expert_scale)) {
      const auto y = expert<N>(x, weights, choice.expert, in.config.moe_intermediate_size);
      for (int i = 0; i < out.cols; ++i)
        out.at(t, i) = N::store(out.at(t, i) + N::store(y.at(0, i) * choice.weight));
    }
  }
  return out;
}

}  // namespace kvconform
