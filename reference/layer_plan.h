// Who reads whose keys and values: the one place that decides it, for every subject written here.
//
// Computed once from a ModelConfig (a Gemma tail from `num_kv_shared_layers`, or an explicit
// `kv_sharing_map` for YOCO, CLA and anything else), validated, printed by `kvconform plan`.
// No other code does arithmetic on layer numbers.
//
// Rules (subject protocol, `kv_sharing_map`): an owner maps to itself; a reader comes after its
// owner and has the same attention type, head size, number of key/value heads, window and rotary
// parameters.
#pragma once

#include <vector>

#include "reference/model_config.h"

namespace kvconform {

enum class Role {
  producer,    ///< computes keys and values that later layers read as well
  consumer,    ///< reads the keys and values of its owner, computes and stores none
  independent  ///< computes keys and values for itself alone
};

struct LayerPlan {
  int layer = 0;
  Role role = Role::independent;
  int owner = 0;        ///< layer whose keys and values this layer reads; itself unless a consumer
  int cache_slot = 0;   ///< where those keys and values are cached; slots count owners in order
  int last_reader = 0;  ///< for an owner: the last layer that reads it; else its own number
  AttentionType type = AttentionType::full;
  int window = 0;  ///< W of a sliding layer; 0: unlimited
  int query_heads = 0, key_value_heads = 0, head_dim = 0;
  Rope rope;
  bool values_from_keys =
      false;                  ///< v = rms(k_proj·x): no v_proj (attention_k_eq_v on full layers)
  int intermediate_size = 0;  ///< feed-forward width, doubling applied
  double activation_sparsity = 0.0;

  bool owns_keys() const { return role != Role::consumer; }
};

/// One entry a layer. Throws Error KV11xx, one id for each rule that a config can break.
std::vector<LayerPlan> plan_layers(const ModelConfig& config);

/// Holds a plan (also one made by hand) to the rules above. plan_layers has done so already.
void check_sharing(const std::vector<LayerPlan>& plan);

/// Number of owners: the slots a cache needs.
int cache_slots(const std::vector<LayerPlan>& plan);

/// Bytes of keys and values that one cached token takes in one layer, at `bytes_per_number`.
long long cache_bytes_per_token(const LayerPlan& layer, int bytes_per_number);

const char* to_string(Role role);

}  // namespace kvconform
