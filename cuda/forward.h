// One launch sequence through the model: a flat list of tokens of any rows, from ids to logits. The
// layers' steps are those of model-spec.md, one operator a step. Owners append to their caches;
// consumers read their owner's. Rows whose logits nobody wants leave after the last owner's append
// (fast prefill): nothing above it writes a cache, so they could only compute their own logits.
#pragma once

#include <span>

#include "cuda/engine.h"

namespace kvconform::cuda::inline DV_MACHINE {

/// The tokens of a launch. `output[i]`: where token i's entry stands in the arrays of a trace.
struct Tokens {
  std::vector<int> ids, per_layer_ids, output;
  std::vector<TokenPlace> places;
  std::vector<int> wanted;  ///< indices into the list, ascending
  int count() const { return int(ids.size()); }
};

class Forward {
 public:
  Forward(const Engine& engine, const RopeTables& ropes, KeyValueStore& store,
          std::vector<Workspace>& workspaces, const SessionOptions& options);

  /// Logits of the wanted tokens are in `logits()` afterwards, on the last layer's device.
  void run(const Tokens& tokens, Trace* trace, int trace_rows);

  int rows() const { return rows_; }  ///< that went through to the end
  const float* logits() const { return w_->logits; }
  int* greedy() const { return w_->greedy; }
  std::int64_t copies_to_devices() const { return copies_to_devices_; }

 private:
  const LayerOnDevice& weights(const LayerPlan& l) const {
    return engine_.weights().layers[l.layer];
  }
  Workspace& workspace_of(int device);
  void upload(const Tokens& tokens);
  void move_to(int device);
  void begin(const Tokens& tokens);
  void embed_per_layer_inputs();
  void expand_streams();
  void finish();
  void select_wanted();

  void gemma3n_layer(const LayerPlan& layer);
  void gemma4_layer(const LayerPlan& layer);
  void feed_forward_of_gemma4(const LayerPlan& layer);
  void experts(const LayerPlan& layer);
  void modalities(const float* x, int x_pitch, const LayerOnDevice& l, const float* coefs,
                  int count);
  void add_per_layer_input_to_streams(const LayerPlan& layer);

  /// normed → attention, with the append before it where the layer owns its keys.
  void attention_block(const LayerPlan& layer);
  void append_keys(const LayerPlan& layer);
  void project_to(const float* x, const float* weight, const float* bias, float* y, int k,
                  int outputs);
  /// y = residual + rms(x)·weight; a null residual is left out.
  void norm(const float* x, const float* weight, float* y, const float* residual = nullptr);
  void mlp(const LayerPlan& layer, const float* x, float* y);
  void per_layer_output(const LayerPlan& layer, const float* x, float* y, const float* residual);

  void trace(const std::string& name, const float* from, std::vector<std::int64_t> shape);
  void trace(const LayerPlan& layer, const char* part, const float* from,
             std::vector<std::int64_t> shape);

  const Engine& engine_;
  const ModelConfig& config_;
  const RopeTables& ropes_;
  KeyValueStore& store_;
  std::vector<Workspace>& workspaces_;
  bool fast_prefill_;
  int start_;  ///< first position of every row
  std::int64_t copies_to_devices_ = 0;

  // Of the launch under way.
  Workspace* w_ = nullptr;
  const Tokens* tokens_ = nullptr;
  int rows_ = 0;
  bool selected_ = false;
  const TokenPlace* places_ = nullptr;
  float *streams_ = nullptr, *spare_streams_ = nullptr;
  float *per_layer_ = nullptr, *normed_ = nullptr;
  Trace* trace_ = nullptr;
  int trace_rows_ = 0;
};

}  // namespace kvconform::cuda::inline DV_MACHINE
