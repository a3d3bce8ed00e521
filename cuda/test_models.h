// Small models for the engine's own tests: between them every operator, and sums and caches that
// cross the cuts at 256 and 64.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/checkpoint.h"
#include "reference/random_weights.h"

namespace kvconform::cuda {

struct TestModel {
  std::string name;
  nlohmann::json config;

  std::shared_ptr<const Checkpoint> checkpoint() const {
    return Checkpoint::from_tensors(config, random_weights(config, {.seed = 11}));
  }
};

inline nlohmann::json base_config(Family family) {
  const char *s = "sliding_attention", *f = "full_attention";
  nlohmann::json config = {{"model_type", to_string(family)},  {"vocab_size", 40},
                           {"vocab_size_per_layer_input", 40}, {"hidden_size", 24},
                           {"num_hidden_layers", 6},           {"num_attention_heads", 6},
                           {"num_key_value_heads", 2},         {"head_dim", 8},
                           {"intermediate_size", 20},          {"hidden_size_per_layer_input", 4},
                           {"num_kv_shared_layers", 3},        {"sliding_window", 5},
                           {"final_logit_softcapping", 5.0},   {"layer_types", {s, s, f, s, s, f}}};
  if (family == Family::gemma3n) {
    config["laurel_rank"] = 3;
    config["altup_num_inputs"] = 3;
    config["altup_active_idx"] = 1;
    config["activation_sparsity_pattern"] = {0.5, 0.0, 0.0, 0.0, 0.9, 0.0};
  } else {
    config["global_head_dim"] = 12;
  }
  return config;
}

inline std::vector<TestModel> test_models() {
  nlohmann::json groups = base_config(Family::gemma3n);  // CLA over one type, biases, small table
  groups["num_kv_shared_layers"] = 0;
  groups["layer_types"] = std::vector<std::string>(6, "sliding_attention");
  groups["kv_sharing_map"] = {0, 0, 2, 0, 4, 2};
  groups["attention_bias"] = true;
  groups["vocab_size_per_layer_input"] = 20;
  groups["tie_word_embeddings"] = false;

  nlohmann::json experts = base_config(Family::gemma4);
  experts["enable_moe_block"] = true;
  experts["num_experts"] = 5;
  experts["top_k_experts"] = 2;
  experts["moe_intermediate_size"] = 7;
  experts["attention_k_eq_v"] = true;
  experts["num_global_key_value_heads"] = 1;
  experts["use_double_wide_mlp"] = true;
  experts["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}}},
      {"sliding_attention", {{"rope_type", "linear"}, {"rope_theta", 1e4}, {"factor", 2.0}}}};

  nlohmann::json wide = base_config(Family::gemma3n);  // rows of one warp and of a block of warps
  wide["hidden_size"] = 270;
  wide["intermediate_size"] = 1100;
  wide["num_hidden_layers"] = 3;
  wide["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  wide["num_kv_shared_layers"] = 1;
  wide["activation_sparsity_pattern"] = {0.5, 0.0, 0.9};
  wide["sliding_window"] = 66;

  return {{"gemma3n", base_config(Family::gemma3n)},
          {"gemma3n_groups", groups},
          {"gemma4", base_config(Family::gemma4)},
          {"gemma4_experts", experts},
          {"gemma3n_wide", wide}};
}

}  // namespace kvconform::cuda
