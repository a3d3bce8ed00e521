// A checkpoint: configuration, sharing plan and weights, bound together and checked.
//
// Opens a folder in Hugging Face layout (`config.json` and `model.safetensors`, or shards with
// `model.safetensors.index.json`), maps it, strips any of the known name prefixes, skips other
// towers and the dead tensors of consumers, and hands out views. Nothing is copied: a 9 GB
// checkpoint costs no memory but the page cache. Errors: KV13xx.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reference/layer_plan.h"
#include "reference/model_config.h"
#include "reference/tensor.h"

namespace kvconform {

/// Weights of one layer; an empty view where the layer has no such tensor. Matrices are [out, in].
struct LayerWeights {
  // Both families.
  TensorView input_layernorm, post_attention_layernorm;              // [H]
  TensorView pre_feedforward_layernorm, post_feedforward_layernorm;  // [H]
  TensorView q_proj, o_proj;                                         // [nH·D, H], [H, nH·D]
  TensorView k_proj, v_proj;                                         // [nK·D, H]; owners only
  TensorView q_bias, k_bias, v_bias, o_bias;                         // with attention_bias
  TensorView q_norm, k_norm;                                         // [D]; k_norm owners only
  TensorView gate_proj, up_proj, down_proj;                          // [I, H], [I, H], [H, I]
  TensorView per_layer_input_gate, per_layer_projection;             // [E, H], [H, E]
  TensorView post_per_layer_input_norm;                              // [H]
  // Gemma 3n.
  TensorView altup_correct_output_scale;                      // [H]
  TensorView altup_prediction_coefs, altup_correction_coefs;  // [N·N, N], [N, N]
  TensorView altup_modality_router, altup_router_norm;        // [N, H], [H]
  TensorView laurel_left, laurel_right, post_laurel_norm;     // [R, H], [H, R], [H]
  // Gemma 4.
  TensorView layer_scalar;                                        // [1]
  TensorView router_proj, router_scale, router_per_expert_scale;  // [X, H], [H], [X]
  TensorView experts_gate_up, experts_down;                       // [X, 2·Im, H], [X, H, Im]
  TensorView pre_feedforward_layernorm_2;                         // [H]
  TensorView post_feedforward_layernorm_1, post_feedforward_layernorm_2;  // [H]
};

struct Weights {
  TensorView embed_tokens;                // [V, H]
  TensorView lm_head;                     // [V, H]; the view of embed_tokens when tied
  TensorView norm;                        // [H]
  TensorView embed_tokens_per_layer;      // [Vp, L·E]
  TensorView per_layer_model_projection;  // [L·E, H]
  TensorView per_layer_projection_norm;   // [E]
  std::vector<TensorView> altup_projections, altup_unembed_projections;  // N−1 of [H, H]
  std::vector<LayerWeights> layers;
};

/// One tensor that a model of this configuration has.
struct TensorSpec {
  std::string name;  ///< without prefix, e.g. "layers.3.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  bool dead =
      false;  ///< projections of a consumer that published files carry: skipped, never needed
};

/// Every tensor of the model, the dead ones of consumers last. The one list that binding, writing
/// and drawing random weights go by.
std::vector<TensorSpec> tensor_specs(const ModelConfig& config, const std::vector<LayerPlan>& plan);

/// What a loader met beside the weights it bound.
struct LoadReport {
  std::string prefix;                ///< that was stripped
  std::vector<std::string> dead;     ///< projections of consumers, present and skipped
  std::vector<std::string> skipped;  ///< tensors of other towers
  std::vector<std::string> warnings;
};

class Checkpoint {
 public:
  /// A folder in Hugging Face layout.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& folder);

  /// A configuration together with a safetensors file or folder of shards: what the subject
  /// protocol loads.
  static std::shared_ptr<const Checkpoint> open(const nlohmann::json& config,
                                                const std::filesystem::path& weights);

  /// Tensors in memory (names with or without a prefix).
  static std::shared_ptr<const Checkpoint> from_tensors(const nlohmann::json& config,
                                                        TensorTable tensors,
                                                        const std::string& origin = "memory");

  const nlohmann::json& config_json() const { return *config_json_; }
  const ModelConfig& config() const { return config_; }
  const std::vector<LayerPlan>& plan() const { return plan_; }
  const Weights& weights() const { return weights_; }
  const TensorTable& tensors() const {
    return tensors_;
  }  ///< as stored, dead and foreign ones included
  const LoadReport& report() const { return report_; }

 private:
  friend struct CheckpointBuilder;
  std::shared_ptr<const nlohmann::json> config_json_;
  ModelConfig config_;
  std::vector<LayerPlan> plan_;
  TensorTable tensors_;
  Weights weights_;
  LoadReport report_;
};

/// Writes `config.json` and `model.safetensors` into `folder` (made if missing; must be empty
/// otherwise).
void write_checkpoint(const std::filesystem::path& folder, const nlohmann::json& config,
                      const TensorTable& tensors);

}  // namespace kvconform
