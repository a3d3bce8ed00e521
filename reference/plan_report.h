// What `kvconform plan` prints: the sharing plan as a table, what the cache costs with sharing and
// without, what of the configuration was ignored and what to beware of. Only tells; decides
// nothing.
//
//   const ModelConfig config = parse_model_config(json);
//   const std::vector<LayerPlan> plan = plan_layers(config);
//   std::cout << plan_table(config, plan);
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reference/layer_plan.h"
#include "reference/model_config.h"

namespace kvconform {

/// Bytes of keys and values that one more token takes in all layers, at `bytes_per_number`.
struct CacheCost {
  long long full_layers = 0;     ///< grow with every token
  long long sliding_layers = 0;  ///< grow until the window is full
  long long unshared = 0;        ///< both, if every layer owned its keys and values
  long long shared() const { return full_layers + sliding_layers; }
  double saved_percent() const;
};
CacheCost cache_cost(const std::vector<LayerPlan>& plan, int bytes_per_number);

/// Things that are valid and yet surprise: where implementations are known to differ or to fail.
std::vector<std::string> plan_warnings(const ModelConfig& config,
                                       const std::vector<LayerPlan>& plan);

/// Aligned text, one row a layer, ended by a newline.
std::string plan_table(const ModelConfig& config, const std::vector<LayerPlan>& plan);

/// The same facts. Field names are stable: {"family", "num_layers", "layers": [{"layer", "type",
/// "role", "owner", "cache_slot", "last_reader", "query_heads", "key_value_heads", "head_dim",
/// "window" (null: unlimited), "rope": {"type", "theta", "factor", "partial_rotary_factor"},
/// "values_from_keys", "intermediate_size", "activation_sparsity"}], "cache": {"slots",
/// "saved_percent", "sliding_window" (null: nothing slides), "bfloat16" and "float32":
/// {"bytes_per_token", "bytes_per_token_unshared", "bytes_per_token_full_layers",
/// "bytes_per_token_sliding_layers", "sliding_layers_at_most"}}, "ignored": [{"field", "reason"}],
/// "warnings": [text]}.
nlohmann::json plan_json(const ModelConfig& config, const std::vector<LayerPlan>& plan);

}  // namespace kvconform
