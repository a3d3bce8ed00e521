// One Gemma 4 layer, step by step (model-spec.md, section 3.5; the numbers are its steps).
#pragma once

#include "reference/attention.h"
#include "reference/layer_io.h"
#include "reference/mlp.h"
#include "reference/moe.h"
#include "reference/per_layer_input.h"

namespace kvconform {

/// Steps 2 and 3: the dense feed-forward, and beside it the experts where the model has them.
template <class N, class Decisions>
Matrix<typename N::Scalar> gemma4_feed_forward(const LayerInputs<N, Decisions>& in,
                                               const CallShape& call,
                                               const Matrix<typename N::Scalar>& h,
                                               Tracer& tracer) {
  const LayerWeights& w = in.attention.weights;
  const double eps = in.config.rms_norm_eps;
  const int threads = in.attention.threads;
  auto d = mlp<N>(rms_norm<N>(h, w.pre_feedforward_layernorm, eps), w, 0.0, threads);
  if (!in.config.enable_moe_block) return d;
  d = rms_norm<N>(d, w.post_feedforward_layernorm_1, eps);
  const auto x = rms_norm<N>(h, w.pre_feedforward_layernorm_2, eps);
  add_in_place<N>(
      d, rms_norm<N>(experts<N>(in, call, h, x, tracer), w.post_feedforward_layernorm_2, eps));
  return d;
}

template <class N, class Decisions, class Keeper>
Matrix<typename N::Scalar> gemma4_layer(const LayerInputs<N, Decisions>& in, const CallShape& call,
                                        Matrix<typename N::Scalar> h, Keeper& keeper,
                                        SharedKeysValues<typename N::Scalar>& shared,
                                        Tracer& tracer) {
  using S = typename N::Scalar;
  const LayerWeights& w = in.attention.weights;
  const LayerPlan& layer = in.attention.layer;
  const double eps = in.config.rms_norm_eps;

  const Matrix<S> raw = attention<N>(in.attention, call, rms_norm<N>(h, w.input_layernorm, eps),
                                     keeper, shared);  // 1
  tracer.record(layer.layer, "attention", raw);
  add_in_place<N>(h, rms_norm<N>(raw, w.post_attention_layernorm, eps));
  add_in_place<N>(h, rms_norm<N>(gemma4_feed_forward<N>(in, call, h, tracer),
                                 w.post_feedforward_layernorm, eps));  // 4
  if (in.config.hidden_size_per_layer_input > 0 &&
      in.attention.decisions.adds_per_layer_input(layer, call))  // 5
    add_in_place<N>(h,
                    per_layer_output<N>(h, in.per_layer, w, eps, in.attention.threads, [&](int t) {
                      return in.attention.decisions.per_layer_input_of(layer, call, t);
                    }));
  if (in.attention.decisions.applies_layer_scalar(layer, call))  // 6: the whole stream
    scale_in_place<N>(h, widened<N>(w.layer_scalar)[0]);
  tracer.record(layer.layer, "output", h);
  return h;
}

}  // namespace kvconform
