// Per-layer inputs (both families, if E > 0): a second embedding table with one vector a layer for
// each token, joined with a projection of the token's embedding:
//   p[i] = (Q[i] + U[i]) / √2,  U = embed_tokens_per_layer[id']·√E,  Q =
//   rms(per_layer_model_projection·x0·H^(−1/2)).
// id' = id, and for Gemma 3n 0 where id is outside the table; for Gemma 4 such an id is an error.
#pragma once

#include <span>

#include "reference/checkpoint.h"
#include "reference/counted.h"
#include "reference/error.h"
#include "reference/norm.h"

namespace kvconform {

inline int per_layer_row(const ModelConfig& config, int id) {
  if (id < config.vocab_size_per_layer_input) return id;
  if (config.family == Family::gemma3n) return 0;
  throw Error("KV1403",
              "token " + std::to_string(id) + " has no row in the per-layer table (" +
                  counted(config.vocab_size_per_layer_input, "row") + ")",
              "use token ids below vocab_size_per_layer_input with a Gemma 4 model");
}

/// x0 [T, H] → [T, L·E]; empty if the model has no per-layer inputs.
template <class N>
Matrix<typename N::Scalar> per_layer_inputs(const Matrix<typename N::Scalar>& x0,
                                            std::span<const int> tokens, const ModelConfig& config,
                                            const Weights& weights, int threads) {
  using S = typename N::Scalar;
  const int width = config.hidden_size_per_layer_input;
  if (width == 0) return {};
  auto p = linear<N>(x0, weights.per_layer_model_projection, {}, threads);
  scale_in_place<N>(p, N::store(S(1) / exact_sqrt(S(config.hidden_size))));
  rms_norm_heads<N>(p, width, weights.per_layer_projection_norm, config.rms_norm_eps);
  const S embedding_scale = N::store(exact_sqrt(S(width)));
  const S half_root = N::store(S(1) / exact_sqrt(S(2)));
  std::vector<S> buffer;
  for (int t = 0; t < p.rows; ++t) {
    const S* u =
        widened_row<N>(weights.embed_tokens_per_layer, per_layer_row(config, tokens[t]), buffer);
    for (int i = 0; i < p.cols; ++i)
      p.at(t, i) = N::store(N::store(p.at(t, i) + N::store(u[i] * embedding_scale)) * half_root);
  }
  return p;
}

/// q = rms(per_layer_projection · (gelu(per_layer_input_gate · h) ⊙ p[i]),
/// post_per_layer_input_norm), [T, H]. `source(t)` says whose p token t gets: its own, of this
/// layer.
template <class N, class Source>
Matrix<typename N::Scalar> per_layer_output(const Matrix<typename N::Scalar>& h,
                                            const Matrix<typename N::Scalar>& inputs,
                                            const LayerWeights& weights, double eps, int threads,
                                            Source source) {
  auto gate = linear<N>(h, weights.per_layer_input_gate, {}, threads);
  for (int t = 0; t < gate.rows; ++t) {
    const auto [token, layer] = source(t);
    gated<N>(gate.row(t), inputs.row(token) + std::size_t(layer) * gate.cols, gate.cols);
  }
  return rms_norm<N>(linear<N>(gate, weights.per_layer_projection, {}, threads),
                     weights.post_per_layer_input_norm, eps);
}

}  // namespace kvconform
