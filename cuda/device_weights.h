// A checkpoint's weights on devices, widened to float: each layer's on the device of the layer, the
// embedding on that of the first, the head on that of the last. Matrices of projections lie
// transposed, [in, out] (kernels.h). Consumers have no key or value weights here: the checkpoint
// does not bind them.
#pragma once

#include <vector>

#include "cuda/device/device_array.h"
#include "reference/checkpoint.h"

namespace kvconform::cuda::inline DV_MACHINE {

/// Null where the layer has no such tensor. Names and shapes: LayerWeights of reference/.
struct LayerOnDevice {
  const float *input_layernorm, *post_attention_layernorm;
  const float *pre_feedforward_layernorm, *post_feedforward_layernorm;
  const float *q_proj, *o_proj, *k_proj, *v_proj;
  const float *q_bias, *k_bias, *v_bias, *o_bias;
  const float *q_norm, *k_norm;
  const float *gate_proj, *up_proj, *down_proj;
  const float *per_layer_input_gate, *per_layer_projection, *post_per_layer_input_norm;
  const float* altup_correct_output_scale;
  const float *altup_prediction_coefs, *altup_correction_coefs;
  const float *altup_modality_router, *altup_router_norm;
  const float *laurel_left, *laurel_right, *post_laurel_norm;
  const float *layer_scalar, *router_proj, *router_scale, *router_per_expert_scale;
  const float *experts_gate_up, *experts_down;
  const float *pre_feedforward_layernorm_2, *post_feedforward_layernorm_1,
      *post_feedforward_layernorm_2;
};

class DeviceWeights {
 public:
  /// `devices`: one a layer.
  DeviceWeights(const Checkpoint& checkpoint, const std::vector<int>& devices);

  const float* embed_tokens = nullptr;            ///< [V, H], of the first device
  const float* embed_tokens_per_layer = nullptr;  ///< [Vp, L·E]
  const float *per_layer_model_projection = nullptr, *per_layer_projection_norm = nullptr;
  std::vector<const float*> altup_projections;
  const float* head = nullptr;  ///< [H, V], of the last device
  const float* norm = nullptr;
  std::vector<const float*> altup_unembed_projections;
  std::vector<LayerOnDevice> layers;

 private:
  const float* plain(const TensorView& tensor, int device);
  /// [out, in] → [in, out]; a third axis in front (experts) stays in front.
  const float* transposed(const TensorView& tensor, int device);
  LayerOnDevice upload(const LayerWeights& layer, int device);

  std::vector<dv::DeviceArray<float>> arrays_;
};

}  // namespace kvconform::cuda::inline DV_MACHINE
