// Adding up tensors and attention. The sharing plan decides; no other arithmetic on layer numbers.
#include "bench/model_cost.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "reference/checkpoint.h"

namespace kvconform::bench {
namespace {

double product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0,
                         [](double a, std::int64_t b) { return a * double(b); });
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// "layers.12.mlp.…" → 12; −1 for tensors outside the layers.
int layer_of(const std::string& name) {
  return name.rfind("layers.", 0) == 0 ? std::stoi(name.substr(7)) : -1;
}

/// Sum over the new tokens of a row of what `layer` shows them: (1 … T) positions, by the window.
double visible(const LayerPlan& layer, int past, int first, int tokens) {
  double sum = 0;
  for (int t = first; t < tokens; ++t) {
    const int seen = past + t + 1;
    sum += layer.window == 0 ? seen : std::min(seen, layer.window);
  }
  return sum;
}

}  // namespace

ModelCost::ModelCost(const ModelConfig& config, std::vector<LayerPlan> plan, int bytes_per_number)
    : config_(config),
      plan_(std::move(plan)),
      bytes_per_number_(bytes_per_number),
      layers_(plan_.size()) {
  for (const LayerPlan& layer : plan_)
    if (layer.owns_keys()) last_owner_ = layer.layer;
  bool own_head = false;
  for (const TensorSpec& tensor : tensor_specs(config_, plan_)) {
    if (tensor.dead) continue;
    own_head |= contains(tensor.name, "lm_head");
    add_tensor(tensor.name, tensor.shape);
  }
  if (!own_head) add_tensor("lm_head.weight", {config_.vocab_size, config_.hidden_size});
}

void ModelCost::add_tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  if (name.rfind("embed_tokens", 0) == 0) {  // tables: a row a token
    table_numbers_per_token_ += double(shape.back());
    return;
  }
  if (layer_of(name) >= 0) return add_layer_tensor(name, shape);
  weight_numbers_ += product(shape);
  if (shape.size() < 2) return;
  const bool for_outputs = contains(name, "lm_head") || contains(name, "unembed");
  (for_outputs ? once_an_output_ : once_a_token_) += product(shape);
}

void ModelCost::add_layer_tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  LayerWork& work = layers_[layer_of(name)];
  double numbers = product(shape);
  if (contains(name, ".experts.")) numbers *= double(config_.top_k_experts) / config_.num_experts;
  weight_numbers_ += numbers;
  if (shape.size() < 2) return;
  if (contains(name, "modality_router")) {  // once to predict, once to correct
    work.before_append += numbers;
    work.after_append += numbers;
  } else if (contains(name, "k_proj") || contains(name, "v_proj") ||
             contains(name, "prediction_coefs")) {
    work.before_append += numbers;
  } else {
    work.after_append += numbers;
  }
}

double ModelCost::token_bytes(const LayerPlan& layer) const {
  return double(cache_bytes_per_token(layer, bytes_per_number_));
}

double ModelCost::kept(const LayerPlan& layer, int length) const {
  return layer.window == 0 ? length : std::min(length, layer.window - 1);
}

/// q·k and weights·v over the positions that the tokens of a call see.
double ModelCost::attention_of(const CostedCall& call, const LayerPlan& layer,
                               bool last_only) const {
  const int first = last_only ? call.tokens - 1 : 0;
  return 2.0 * layer.query_heads * layer.head_dim * visible(layer, call.past, first, call.tokens) *
         call.rows;
}

CallCost ModelCost::of(const CostedCall& call) const {
  const double tokens = double(call.rows) * call.tokens;
  const double outputs = call.last_only ? call.rows : tokens;
  const bool skip = call.last_only && call.skip;
  const double going_on = skip ? call.rows : tokens;
  CallCost cost;
  cost.weight_bytes = weight_numbers_ * bytes_per_number_;
  cost.table_bytes = tokens * table_numbers_per_token_ * bytes_per_number_;
  cost.logit_bytes = outputs * config_.vocab_size * bytes_per_number_;
  cost.multiply_adds = tokens * once_a_token_ + outputs * once_an_output_;
  for (const LayerPlan& layer : plan_) {
    const LayerWork& work = layers_[layer.layer];
    const bool above = layer.layer > last_owner_, at = layer.layer == last_owner_;
    cost.multiply_adds += (above ? going_on : tokens) * work.before_append +
                          (above || at ? going_on : tokens) * work.after_append +
                          attention_of(call, layer, skip && (above || at));
    // A column of a cached token is the owner's, whichever layer reads it.
    const LayerPlan& owner = plan_[layer.owner];
    cost.cache_read_bytes += call.rows * kept(owner, call.past) * token_bytes(owner);
    if (layer.owns_keys()) cost.cache_written_bytes += tokens * token_bytes(layer);
  }
  return cost;
}

double ModelCost::cache_bytes(int length) const {
  double bytes = 0;
  for (const LayerPlan& layer : plan_)
    if (layer.owns_keys()) bytes += kept(layer, length) * token_bytes(layer);
  return bytes;
}

double ModelCost::cache_bytes_unshared(int length) const {
  double bytes = 0;
  for (const LayerPlan& layer : plan_) {
    const LayerPlan& owner = plan_[layer.owner];
    bytes += kept(owner, length) * token_bytes(owner);
  }
  return bytes;
}

}  // namespace kvconform::bench
