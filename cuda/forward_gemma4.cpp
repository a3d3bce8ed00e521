// One Gemma 4 layer (model-spec.md, section 3.5; the numbers are its steps).
#include <cmath>

#include "cuda/forward.h"

namespace kvconform::cuda::inline DV_MACHINE {

/// Σ of the chosen experts' results into w.projected. The router sees the raw stream, the experts
/// its norm.
void Forward::experts(const LayerPlan& layer) {
  const LayerOnDevice& l = weights(layer);
  const int h = config_.hidden_size, x = config_.num_experts, k = config_.top_k_experts;
  const int width = config_.moe_intermediate_size;
  RmsNorm router{
      streams_, l.router_scale, w_->projected, rows_, h, h, h, float(config_.rms_norm_eps)};
  router.after = 1.f / std::sqrt(float(h));
  rms_norm(router);
  project_to(w_->projected, l.router_proj, nullptr, w_->router, h, x);
  choose_experts(w_->router, l.router_per_expert_scale, w_->chosen, w_->expert_weights, rows_, x,
                 k);
  trace(layer, "router", w_->router, {x});
  norm(streams_, l.pre_feedforward_layernorm_2, w_->projected);
  Projection gate_up{
      w_->projected, l.experts_gate_up, nullptr, w_->expert_gate_up, rows_ * k, h, 2 * width, h,
      2 * width};
  gate_up.experts = w_->chosen;
  gate_up.share = k;
  project(gate_up);
  gated_gelu({w_->expert_gate_up, w_->expert_gate_up + width, w_->expert_gate, rows_ * k, width,
              2 * width, 2 * width});
  Projection down{
      w_->expert_gate, l.experts_down, nullptr, w_->expert_out, rows_ * k, width, h, width, h};
  down.experts = w_->chosen;
  project(down);
  combine_experts(w_->expert_out, w_->expert_weights, w_->projected, rows_, k, h);
}

/// Steps 2 to 4: h + rms(d), d the dense feed-forward with the experts beside it.
void Forward::feed_forward_of_gemma4(const LayerPlan& layer) {
  const LayerOnDevice& l = weights(layer);
  norm(streams_, l.pre_feedforward_layernorm, w_->joined);
  mlp(layer, w_->joined, w_->activated);
  if (config_.enable_moe_block) {
    norm(w_->activated, l.post_feedforward_layernorm_1, w_->activated);
    experts(layer);
    norm(w_->projected, l.post_feedforward_layernorm_2, w_->activated, w_->activated);
  }
  norm(w_->activated, l.post_feedforward_layernorm, streams_, streams_);
}

void Forward::gemma4_layer(const LayerPlan& layer) {
  const LayerOnDevice& l = weights(layer);
  const int h = config_.hidden_size;
  normed_ = w_->normed;
  norm(streams_, l.input_layernorm, normed_);
  attention_block(layer);  // 1
  if (rows_ == 0) return;
  norm(w_->attention, l.post_attention_layernorm, streams_, streams_);
  feed_forward_of_gemma4(layer);
  if (config_.hidden_size_per_layer_input > 0)  // 5
    per_layer_output(layer, streams_, streams_, streams_);
  scale_all(streams_, l.layer_scalar, std::size_t(rows_) * h);  // 6: the whole stream
  trace(layer, "output", streams_, {h});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
