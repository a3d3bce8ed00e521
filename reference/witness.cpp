// The witness from tokens to logits: model-spec.md sections 3.2 (per-layer inputs) and 3.3 (what
// Gemma 3n does before the first and after the last layer). The layers are in witness_layers.cpp.
#include "reference/witness.h"

#include <fmt/format.h>
#include <cmath>
#include <numbers>

#include "reference/error.h"
#include "reference/witness_parts.h"

namespace kvconform {
namespace witness {
namespace {

void check_tokens(const ModelConfig& config, const std::vector<int>& tokens) {
  const bool per_layer = config.family == Family::gemma4 && config.hidden_size_per_layer_input > 0;
  const int bound = per_layer ? std::min(config.vocab_size, config.vocab_size_per_layer_input)
                              : config.vocab_size;
  for (int id : tokens) {
    if (id >= 0 && id < bound) continue;
    throw Error("KV1450", fmt::format("token {} is outside the vocabulary", id),
                fmt::format("give tokens from 0 to {}", bound - 1));
  }
}

Matrix embed(const TensorView& table, const std::vector<int>& ids, double scale) {
  Matrix x(Eigen::Index(ids.size()), table.cols());
  for (std::size_t t = 0; t < ids.size(); ++t)
    x.row(Eigen::Index(t)) = widen(table, ids[t], 1) * scale;
  return x;
}

/// 3.2: p[i] = (Q[i] + U[i]) / √2, L matrices of [T, E].
std::vector<Matrix> per_layer_inputs(const Checkpoint& checkpoint, std::vector<int> ids,
                                     const Matrix& x0) {
  const ModelConfig& config = checkpoint.config();
  const Weights& w = checkpoint.weights();
  const int e = config.hidden_size_per_layer_input;
  if (e == 0) return {};
  for (int& id : ids) id = id < config.vocab_size_per_layer_input ? id : 0;  // id' (Gemma 3n only)
  const Matrix u = embed(w.embed_tokens_per_layer, ids, std::sqrt(double(e)));
  const Matrix q = linear(x0, w.per_layer_model_projection) / std::sqrt(double(x0.cols()));
  std::vector<Matrix> p;
  for (int i = 0; i < config.num_layers; ++i) {
    const Matrix qi = rms(q.middleCols(i * e, e), w.per_layer_projection_norm, config.rms_norm_eps);
    p.push_back((qi + u.middleCols(i * e, e)) / std::numbers::sqrt2);
  }
  return p;
}

/// 3.3: y brought to magnitude t. The bound keeps a row of zeros (a pad row) at zero instead of
/// 0/0.
Matrix with_magnitude(const Matrix& y, const Column& t) {
  return scale_rows(t.array() / mean_square(y).cwiseMax(1e-5).array().sqrt(), y);
}

Streams expand(const Weights& w, const Matrix& x0) {
  Streams h = {x0};
  for (const TensorView& p : w.altup_projections) {
    h.push_back(with_magnitude(linear(x0, p), mean_square(x0).cwiseSqrt()));
  }
  return h;
}

Matrix collapse(const Weights& w, const Streams& h) {
  Matrix sum = h[0];
  for (std::size_t s = 1; s < h.size(); ++s) {
    const Matrix y = linear(h[s], w.altup_unembed_projections[s - 1]);
    sum += with_magnitude(y, mean_square(h[0]).cwiseSqrt());
  }
  return sum / double(h.size());
}

Matrix gemma3n(Pass& pass, const Matrix& x0) {
  Streams h = expand(pass.checkpoint.weights(), x0);
  record(pass.trace, "streams", h);
  for (int i = 0; i < pass.config().num_layers; ++i) h = gemma3n_layer(pass, i, h);
  return collapse(pass.checkpoint.weights(), h);
}

Matrix gemma4(Pass& pass, Matrix h) {
  for (int i = 0; i < pass.config().num_layers; ++i) h = gemma4_layer(pass, i, h);
  return h;
}

Matrix head(const Pass& pass, const Matrix& out) {
  const Weights& w = pass.checkpoint.weights();
  const Matrix normed = rms(out, w.norm, pass.config().rms_norm_eps);
  record(pass.trace, "final_norm", normed);
  Matrix z = linear(normed, w.lm_head);
  if (const auto c = pass.config().final_logit_softcapping) z = *c * (z / *c).array().tanh();
  record(pass.trace, "logits", z);
  return z;
}

}  // namespace
}  // namespace witness

Logits witness_logits(const Checkpoint& checkpoint, const std::vector<int>& tokens, Trace* trace) {
  using namespace witness;
  const ModelConfig& config = checkpoint.config();
  check_tokens(config, tokens);
  if (tokens.empty()) return {0, config.vocab_size, {}};

  const Matrix x0 =
      embed(checkpoint.weights().embed_tokens, tokens, std::sqrt(double(config.hidden_size)));
  record(trace, "embedding", x0);
  Pass pass{checkpoint, per_layer_inputs(checkpoint, tokens, x0), {}, trace};
  if (!pass.per_layer_inputs.empty()) record(trace, "per_layer_inputs", pass.per_layer_inputs);
  const Matrix out = config.family == Family::gemma3n ? gemma3n(pass, x0) : gemma4(pass, x0);
  const Matrix z = head(pass, out);
  return {int(z.rows()), int(z.cols()), {z.data(), z.data() + z.size()}};
}

}  // namespace kvconform
