// One Gemma 3n layer (model-spec.md, section 3.4; the numbers are its steps).
#include "cuda/forward.h"

namespace kvconform::cuda::inline DV_MACHINE {

/// coefs·tanh(modality_router·(rms(x, router_norm) / H)) into w.coefs, [T, count].
void Forward::modalities(const float* x, int x_pitch, const LayerOnDevice& l, const float* coefs,
                         int count) {
  const int h = config_.hidden_size, n = config_.altup_num_inputs;
  RmsNorm norm{x, l.altup_router_norm,        w_->projected, rows_, h, x_pitch,
               h, float(config_.rms_norm_eps)};
  norm.after = 1.f / float(h);
  rms_norm(norm);
  project_to(w_->projected, l.altup_modality_router, nullptr, w_->modalities, h, n);
  tanh_in_place(w_->modalities, std::size_t(rows_) * n);
  project_to(w_->modalities, coefs, nullptr, w_->coefs, n, count);
}

/// Steps 9 to 11: never stream 0, whichever is active.
void Forward::add_per_layer_input_to_streams(const LayerPlan& layer) {
  const int h = config_.hidden_size, n = config_.altup_num_inputs;
  const float* active = streams_ + config_.altup_active_idx * h;
  if (config_.altup_correct_scale)
    scale_columns(active, n * h, weights(layer).altup_correct_output_scale, w_->joined, rows_, h);
  else
    copy_rows(active, n * h, w_->joined, h, rows_, h);
  per_layer_output(layer, w_->joined, w_->activated, nullptr);
  add_to_side_streams(streams_, w_->activated, rows_, n, h);
}

void Forward::gemma3n_layer(const LayerPlan& layer) {
  const LayerOnDevice& l = weights(layer);
  const int h = config_.hidden_size, n = config_.altup_num_inputs;
  const int active = config_.altup_active_idx * h;
  const float eps = float(config_.rms_norm_eps);

  modalities(streams_ + active, n * h, l, l.altup_prediction_coefs, n * n);  // 1
  altup_predict(streams_, w_->coefs, spare_streams_, rows_, n, h);           // 2
  std::swap(streams_, spare_streams_);
  normed_ = w_->normed;
  rms_norm({streams_ + active, l.input_layernorm, normed_, rows_, h, n * h, h, eps});  // 3
  attention_block(layer);                                                              // 5
  if (rows_ == 0) return;
  project_to(normed_, l.laurel_left, nullptr, w_->low_rank, h, config_.laurel_rank);  // 4
  project_to(w_->low_rank, l.laurel_right, nullptr, w_->projected, config_.laurel_rank, h);
  norm(w_->projected, l.post_laurel_norm, w_->laurel, normed_);
  RmsNorm attended{w_->attention, l.post_attention_layernorm, w_->joined, rows_, h, h, h, eps};
  attended.residual = streams_ + active;
  attended.residual_pitch = n * h;
  rms_norm(attended);
  join_halves(w_->joined, w_->laurel, w_->joined, std::size_t(rows_) * h);  // 6
  norm(w_->joined, l.pre_feedforward_layernorm, w_->projected);             // 7
  mlp(layer, w_->projected, w_->activated);
  norm(w_->activated, l.post_feedforward_layernorm, w_->activated, w_->joined);
  modalities(w_->activated, h, l, l.altup_correction_coefs, n);  // 8
  altup_correct(streams_, w_->coefs, w_->activated, config_.altup_active_idx, rows_, n, h);
  if (config_.hidden_size_per_layer_input > 0) add_per_layer_input_to_streams(layer);
  trace(layer, "output", streams_, {n, h});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
