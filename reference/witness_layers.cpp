// The witness's layers: model-spec.md sections 3.4 (Gemma 3n) and 3.5 (Gemma 4). The numbers in the
// comments are the steps of those sections.
#include <cmath>
#include <numbers>

#include "reference/witness_parts.h"

namespace kvconform::witness {
namespace {

/// Step 1: m(x), [T, N].
Matrix modality(const Pass& pass, const LayerWeights& w, const Matrix& x) {
  const Matrix normed = rms(x, w.altup_router_norm, pass.config().rms_norm_eps);
  return linear(normed / double(x.cols()), w.altup_modality_router).array().tanh();
}

/// Step 2: C = prediction_coefs · m(h_a), seen as [N, N]; pred_s = h_s + Σ_r C[s, r] h_r.
Streams predict(const Matrix& m, const LayerWeights& w, const Streams& h) {
  const int n = int(h.size());
  const Matrix c = linear(m, w.altup_prediction_coefs);  // [T, N·N]
  Streams predicted = h;
  for (int s = 0; s < n; ++s) {
    for (int r = 0; r < n; ++r) predicted[s] += scale_rows(c.col(s * n + r), h[r]);
  }
  return predicted;
}

/// Step 8: new_s = pred_s + k_s · (act − pred_a) with k = correction_coefs · m(act) + 1.
Streams correct(const Matrix& m, const LayerWeights& w, const Streams& predicted, int active,
                const Matrix& activated) {
  const Matrix k = linear(m, w.altup_correction_coefs).array() + 1.0;  // [T, N]
  const Matrix innovation = activated - predicted[active];
  Streams corrected = predicted;
  for (std::size_t s = 0; s < corrected.size(); ++s) {
    corrected[s] += scale_rows(k.col(Eigen::Index(s)), innovation);
  }
  return corrected;
}

/// 3.4 step 10 and 3.5 step 5: what the layer makes of its per-layer input.
Matrix per_layer_input(const Pass& pass, int layer, const Matrix& x) {
  const LayerWeights& w = pass.weights(layer);
  const Matrix gated =
      gelu(linear(x, w.per_layer_input_gate)).cwiseProduct(pass.per_layer_inputs[layer]);
  return rms(linear(gated, w.per_layer_projection), w.post_per_layer_input_norm,
             pass.config().rms_norm_eps);
}

/// Keeps what is above the s-quantile of a normal distribution with the token's own mean and
/// deviation.
Matrix sparsify(const Matrix& gate, double sparsity) {
  if (!(sparsity > 0.0)) return gate;
  const Column mean = gate.rowwise().mean();
  const Column deviation = mean_square(gate.colwise() - mean).cwiseSqrt();  // biased: divided by I
  const Column cutoff = mean + deviation * normal_quantile(sparsity);
  return (gate.colwise() - cutoff).cwiseMax(0.0);
}

}  // namespace

Matrix mlp(const LayerWeights& w, double sparsity, const Matrix& x) {
  const Matrix gate = sparsify(linear(x, w.gate_proj), sparsity);
  return linear(gelu(gate).cwiseProduct(linear(x, w.up_proj)), w.down_proj);
}

Streams gemma3n_layer(Pass& pass, int layer, const Streams& h) {
  const ModelConfig& config = pass.config();
  const LayerWeights& w = pass.weights(layer);
  const double eps = config.rms_norm_eps;
  const int a = config.altup_active_idx;

  const Streams pred = predict(modality(pass, w, h[a]), w, h);  // 1, 2
  const Matrix u = pred[a];                                     // 3
  const Matrix v = rms(u, w.input_layernorm, eps);
  const Matrix l =
      v + rms(linear(linear(v, w.laurel_left), w.laurel_right), w.post_laurel_norm, eps);  // 4
  const Matrix attended = attention(pass, layer, v);
  record(pass.trace, "layer." + std::to_string(layer) + ".attention", attended);
  const Matrix b = rms(attended, w.post_attention_layernorm, eps);  // 5
  const Matrix g = (u + b + l) / std::numbers::sqrt2;               // 6
  const Matrix fed =
      mlp(w, pass.plan(layer).activation_sparsity, rms(g, w.pre_feedforward_layernorm, eps));
  const Matrix act = g + rms(fed, w.post_feedforward_layernorm, eps);  // 7
  Streams out = correct(modality(pass, w, act), w, pred, a, act);      // 8
  if (config.hidden_size_per_layer_input > 0) {
    Matrix q = out[a];  // 9
    if (config.altup_correct_scale) q = q * widen_row(w.altup_correct_output_scale).asDiagonal();
    q = per_layer_input(pass, layer, q);                       // 10
    for (std::size_t s = 1; s < out.size(); ++s) out[s] += q;  // 11
  }
  record(pass.trace, "layer." + std::to_string(layer) + ".output", out);
  return out;
}

/// Softmax over all experts, the k largest (of equal ones the lower index) divided by their sum,
/// times per_expert_scale. Expert e is chosen if fewer than k experts come before it.
Matrix router_weights(const Pass& pass, int layer, const Matrix& h) {
  const LayerWeights& w = pass.weights(layer);
  const Matrix scaled = rms(h, pass.config().rms_norm_eps) *
                        (widen_row(w.router_scale) / std::sqrt(double(h.cols()))).asDiagonal();
  const Matrix r = softmax(linear(scaled, w.router_proj));  // [T, X]
  Matrix chosen = Matrix::Zero(r.rows(), r.cols());
  for (Eigen::Index t = 0; t < r.rows(); ++t) {
    for (Eigen::Index e = 0; e < r.cols(); ++e) {
      const auto larger = (r.row(t).array() > r(t, e)).count();
      const auto equal_before = (r.row(t).head(e).array() == r(t, e)).count();
      if (larger + equal_before < pass.config().top_k_experts) chosen(t, e) = r(t, e);
    }
  }
  return scale_rows(chosen.rowwise().sum().cwiseInverse(), chosen) *
         widen_row(w.router_per_expert_scale).asDiagonal();
}

Matrix experts(const Pass& pass, int layer, const Matrix& h, const Matrix& x) {
  const LayerWeights& w = pass.weights(layer);
  const Matrix weight = router_weights(pass, layer, h);
  const Eigen::Index width = pass.config().moe_intermediate_size, hidden = x.cols();
  Matrix sum = Matrix::Zero(x.rows(), x.cols());
  for (int e = 0; e < pass.config().num_experts; ++e) {
    // One expert's matrix out of the stack: the view's first axis is the expert.
    const Matrix gate_up =
        widen(w.experts_gate_up, e, 1).reshaped<Eigen::RowMajor>(2 * width, hidden);
    const Matrix down = widen(w.experts_down, e, 1).reshaped<Eigen::RowMajor>(hidden, width);
    const Matrix gu = linear(x, gate_up);
    const Matrix out = linear(gelu(gu.leftCols(width)).cwiseProduct(gu.rightCols(width)), down);
    sum += scale_rows(weight.col(e), out);
  }
  return sum;
}

Matrix gemma4_layer(Pass& pass, int layer, Matrix h) {
  const LayerWeights& w = pass.weights(layer);
  const double eps = pass.config().rms_norm_eps;
  const Matrix attended = attention(pass, layer, rms(h, w.input_layernorm, eps));
  record(pass.trace, "layer." + std::to_string(layer) + ".attention", attended);
  h += rms(attended, w.post_attention_layernorm, eps);               // 1
  Matrix d = mlp(w, 0.0, rms(h, w.pre_feedforward_layernorm, eps));  // 2
  if (pass.config().enable_moe_block) {                              // 3
    const Matrix mixed = experts(pass, layer, h, rms(h, w.pre_feedforward_layernorm_2, eps));
    d = rms(d, w.post_feedforward_layernorm_1, eps) +
        rms(mixed, w.post_feedforward_layernorm_2, eps);
  }
  h += rms(d, w.post_feedforward_layernorm, eps);  // 4
  if (pass.config().hidden_size_per_layer_input > 0)
    h += per_layer_input(pass, layer, Matrix(h));  // 5
  h *= element(w.layer_scalar, 0);                 // 6
  record(pass.trace, "layer." + std::to_string(layer) + ".output", h);
  return h;
}

}  // namespace kvconform::witness
