// Hashing configurations, weights and traces.
#include "golden/waypoints.h"

#include <nlohmann/json.hpp>

#include "golden/sha256.h"
#include "reference/plan_report.h"

namespace kvconform {
namespace {

using nlohmann::json;

/// What shapes the arithmetic, one field each; what differs between layers is in the plan.
json effective_config(const ModelConfig& config, const std::vector<LayerPlan>& plan) {
  const json cap = config.final_logit_softcapping ? json(*config.final_logit_softcapping) : json();
  return {{"vocab_size", config.vocab_size},
          {"vocab_size_per_layer_input", config.vocab_size_per_layer_input},
          {"hidden_size", config.hidden_size},
          {"rms_norm_eps", config.rms_norm_eps},
          {"tie_word_embeddings", config.tie_word_embeddings},
          {"attention_bias", config.attention_bias},
          {"final_logit_softcapping", cap},
          {"hidden_size_per_layer_input", config.hidden_size_per_layer_input},
          {"bidirectional_all", config.bidirectional_all},
          {"enable_moe_block", config.enable_moe_block},
          {"num_experts", config.num_experts},
          {"top_k_experts", config.top_k_experts},
          {"moe_intermediate_size", config.moe_intermediate_size},
          {"altup_num_inputs", config.altup_num_inputs},
          {"altup_active_idx", config.altup_active_idx},
          {"altup_correct_scale", config.altup_correct_scale},
          {"laurel_rank", config.laurel_rank},
          {"layers", plan_json(config, plan).at("layers")}};
}

json calls_json(const std::vector<Call>& calls) {
  Case words;
  words.model.config_text = "{}";
  words.calls = calls;
  return to_json(words).at("calls");
}

/// Values and not bytes: the payload of a NaN is no promise.
std::string tensor_hash(const TensorView& tensor) {
  Logits values{1, int(tensor.count()), {}};
  for (std::int64_t i = 0; i < tensor.count(); ++i) values.values.push_back(element(tensor, i));
  return sha256(to_string(tensor.dtype) + shape_text(tensor.shape) + sha256(values));
}

}  // namespace

std::string short_hash(const std::string& sha256) {
  return sha256.substr(0, 8);
}

Waypoints waypoints_of(const Recipe& recipe, const Checkpoint& checkpoint) {
  Waypoints way;
  way.calls = calls_json(recipe.calls).dump();
  way.config = effective_config(checkpoint.config(), checkpoint.plan()).dump();
  Sha256 all;
  for (const auto& [name, tensor] : checkpoint.tensors().tensors) {
    const std::string hash = tensor_hash(tensor);
    all.update(name.data(), name.size());
    all.update(hash.data(), hash.size());
    way.tensor_hashes.push_back(short_hash(hash));
    way.tensor_names.push_back(name);
  }
  way.weights_sha256 = all.hex();
  return way;
}

void StageHashes::add(const Trace& trace) {
  std::vector<std::string> hashes;
  std::vector<std::string> names;
  for (const TraceArray& array : trace) {
    names.push_back(array.name);
    hashes.push_back(short_hash(sha256(Logits{1, int(array.values.size()), array.values})));
  }
  if (stages.empty()) stages = names;
  calls.push_back(std::move(hashes));
}

}  // namespace kvconform
