// One Gemma 3n layer, step by step (model-spec.md, section 3.4; the numbers are its steps).
#pragma once

#include "reference/altup.h"
#include "reference/attention.h"
#include "reference/laurel.h"
#include "reference/layer_io.h"
#include "reference/mlp.h"
#include "reference/per_layer_input.h"

namespace kvconform {

/// (a + b + c) / √2 with each addition stored: the attention result joined with the stream and
/// LAuReL.
template <class N>
Matrix<typename N::Scalar> join(const Matrix<typename N::Scalar>& a,
                                const Matrix<typename N::Scalar>& b,
                                const Matrix<typename N::Scalar>& c) {
  using S = typename N::Scalar;
  const S root = N::store(exact_sqrt(S(2)));
  Matrix<S> out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = N::store(N::store(N::store(a.values[i] + b.values[i]) + c.values[i]) / root);
  return out;
}

/// Steps 9 to 11: the per-layer input, added to every stream but stream 0, whichever is active.
template <class N, class Decisions>
void add_per_layer_input(const LayerInputs<N, Decisions>& in, const CallShape& call,
                         Streams<typename N::Scalar>& streams) {
  using S = typename N::Scalar;
  Matrix<S> q = streams[in.config.altup_active_idx];  // a copy: the stream itself keeps its value
  if (in.attention.decisions.corrects_output_scale(in.config, call)) {
    const auto scale = widened<N>(in.attention.weights.altup_correct_output_scale);
    for (int t = 0; t < q.rows; ++t)
      for (int i = 0; i < q.cols; ++i) q.at(t, i) = N::store(q.at(t, i) * scale[i]);
  }
  q = per_layer_output<N>(q, in.per_layer, in.attention.weights, in.config.rms_norm_eps,
                          in.attention.threads, [&](int t) {
                            return in.attention.decisions.per_layer_input_of(in.attention.layer,
                                                                             call, t);
                          });
  for (std::size_t s = in.attention.decisions.first_stream_with_per_layer_input();
       s < streams.size(); ++s)
    add_in_place<N>(streams[s], q);
}

template <class N, class Decisions, class Keeper>
Streams<typename N::Scalar> gemma3n_layer(const LayerInputs<N, Decisions>& in,
                                          const CallShape& call,
                                          const Streams<typename N::Scalar>& h, Keeper& keeper,
                                          SharedKeysValues<typename N::Scalar>& shared,
                                          Tracer& tracer) {
  using S = typename N::Scalar;
  const LayerWeights& w = in.attention.weights;
  const double eps = in.config.rms_norm_eps;
  const int active = in.config.altup_active_idx, threads = in.attention.threads;

  Streams<S> streams = predict<N>(h, in.attention.decisions.router_stream(active), w, eps);  // 1, 2
  const Matrix<S>& u = streams[active];                                                      // 3
  const Matrix<S> v = rms_norm<N>(u, w.input_layernorm, eps);
  const Matrix<S> l = laurel<N>(v, w, eps, threads);                          // 4
  const Matrix<S> raw = attention<N>(in.attention, call, v, keeper, shared);  // 5
  tracer.record(in.attention.layer.layer, "attention", raw);
  const Matrix<S> b = rms_norm<N>(raw, w.post_attention_layernorm, eps);
  const Matrix<S> g = join<N>(u, b, l);  // 6
  Matrix<S> activated = rms_norm<N>(     // 7
      mlp<N>(rms_norm<N>(g, w.pre_feedforward_layernorm, eps), w,
             in.attention.decisions.activation_sparsity(in.attention.layer, call), threads),
      w.post_feedforward_layernorm, eps);
  add_in_place<N>(activated, g);
  correct<N>(streams, activated, active, w, eps);  // 8
  if (in.config.hidden_size_per_layer_input > 0 &&
      in.attention.decisions.adds_per_layer_input(in.attention.layer, call))
    add_per_layer_input<N>(in, call, streams);  // 9 to 11
  tracer.record_streams(in.attention.layer.layer, streams);
  return streams;
}

}  // namespace kvconform
