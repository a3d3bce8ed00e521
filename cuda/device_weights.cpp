// Widening, transposing and uploading.
#include "cuda/device_weights.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

std::vector<float> widened(const TensorView& tensor) {
  std::vector<float> values(tensor.count());
  for (std::int64_t i = 0; i < tensor.count(); ++i) values[i] = element(tensor, i);
  return values;
}

}  // namespace

const float* DeviceWeights::plain(const TensorView& tensor, int device) {
  if (!tensor) return nullptr;
  const std::vector<float> values = widened(tensor);
  arrays_.emplace_back(device, values.size(), "weights");
  arrays_.back().upload(values.data());
  return arrays_.back().data();
}

const float* DeviceWeights::transposed(const TensorView& tensor, int device) {
  if (!tensor) return nullptr;
  const std::size_t columns = tensor.shape.back();
  const std::size_t rows = tensor.shape[tensor.shape.size() - 2];
  const std::size_t matrices = tensor.count() / (rows * columns);
  const std::vector<float> from = widened(tensor);
  std::vector<float> to(from.size());
  for (std::size_t m = 0; m < matrices; ++m)
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        to[(m * columns + c) * rows + r] = from[(m * rows + r) * columns + c];
  arrays_.emplace_back(device, to.size(), "weights");
  arrays_.back().upload(to.data());
  return arrays_.back().data();
}

LayerOnDevice DeviceWeights::upload(const LayerWeights& w, int device) {
  LayerOnDevice l{};
  const auto vector = [&](const float*& to, const TensorView& from) { to = plain(from, device); };
  const auto matrix = [&](const float*& to, const TensorView& from) {
    to = transposed(from, device);
  };
  vector(l.input_layernorm, w.input_layernorm);
  vector(l.post_attention_layernorm, w.post_attention_layernorm);
  vector(l.pre_feedforward_layernorm, w.pre_feedforward_layernorm);
  vector(l.post_feedforward_layernorm, w.post_feedforward_layernorm);
  matrix(l.q_proj, w.q_proj);
  matrix(l.o_proj, w.o_proj);
  matrix(l.k_proj, w.k_proj);
  matrix(l.v_proj, w.v_proj);
  vector(l.q_bias, w.q_bias);
  vector(l.k_bias, w.k_bias);
  vector(l.v_bias, w.v_bias);
  vector(l.o_bias, w.o_bias);
  vector(l.q_norm, w.q_norm);
  vector(l.k_norm, w.k_norm);
  matrix(l.gate_proj, w.gate_proj);
  matrix(l.up_proj, w.up_proj);
  matrix(l.down_proj, w.down_proj);
  matrix(l.per_layer_input_gate, w.per_layer_input_gate);
  matrix(l.per_layer_projection, w.per_layer_projection);
  vector(l.post_per_layer_input_norm, w.post_per_layer_input_norm);
  vector(l.altup_correct_output_scale, w.altup_correct_output_scale);
  matrix(l.altup_prediction_coefs, w.altup_prediction_coefs);
  matrix(l.altup_correction_coefs, w.altup_correction_coefs);
  matrix(l.altup_modality_router, w.altup_modality_router);
  vector(l.altup_router_norm, w.altup_router_norm);
  matrix(l.laurel_left, w.laurel_left);
  matrix(l.laurel_right, w.laurel_right);
  vector(l.post_laurel_norm, w.post_laurel_norm);
  vector(l.layer_scalar, w.layer_scalar);
  matrix(l.router_proj, w.router_proj);
  vector(l.router_scale, w.router_scale);
  vector(l.router_per_expert_scale, w.router_per_expert_scale);
  matrix(l.experts_gate_up, w.experts_gate_up);
  matrix(l.experts_down, w.experts_down);
  vector(l.pre_feedforward_layernorm_2, w.pre_feedforward_layernorm_2);
  vector(l.post_feedforward_layernorm_1, w.post_feedforward_layernorm_1);
  vector(l.post_feedforward_layernorm_2, w.post_feedforward_layernorm_2);
  return l;
}

DeviceWeights::DeviceWeights(const Checkpoint& checkpoint, const std::vector<int>& devices) {
  const Weights& w = checkpoint.weights();
  const int first = devices.front(), last = devices.back();
  embed_tokens = plain(w.embed_tokens, first);
  embed_tokens_per_layer = plain(w.embed_tokens_per_layer, first);
  per_layer_model_projection = transposed(w.per_layer_model_projection, first);
  per_layer_projection_norm = plain(w.per_layer_projection_norm, first);
  for (const TensorView& p : w.altup_projections) altup_projections.push_back(transposed(p, first));
  for (std::size_t i = 0; i < w.layers.size(); ++i)
    layers.push_back(upload(w.layers[i], devices[i]));
  for (const TensorView& p : w.altup_unembed_projections)
    altup_unembed_projections.push_back(transposed(p, last));
  head = transposed(w.lm_head, last);
  norm = plain(w.norm, last);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
