// Simplifications of a config: layers out, sharing down, sizes down, options to what is plainest.
// Each candidate is parsed and planned; what is not valid is dropped.
#include "properties/model_shrinking.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "properties/generators/model_generator.h"
#include "properties/shrinking.h"
#include "reference/error.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

using nlohmann::json;

bool valid(const json& config) {
  try {
    plan_layers(parse_model_config(config));
    return true;
  } catch (const Error&) {
    return false;
  }
}

void erase_entry(json& config, const char* list, int index) {
  if (config.contains(list) && config[list].is_array() &&
      index < static_cast<int>(config[list].size())) {
    config[list].erase(index);
  }
}

/// The map without one layer: numbers above it move down; readers of the layer read the first of
/// them.
void erase_from_map(json& config, int layer) {
  if (!config.contains("kv_sharing_map") || !config["kv_sharing_map"].is_array()) return;
  std::vector<int> map = config["kv_sharing_map"];
  int heir = -1;
  std::vector<int> smaller;
  for (int i = 0; i < static_cast<int>(map.size()); ++i) {
    if (i == layer) continue;
    int owner = map[i];
    if (owner == layer) {
      if (heir < 0) heir = i;
      owner = heir;
    }
    smaller.push_back(owner > layer ? owner - 1 : owner);
  }
  config["kv_sharing_map"] = smaller;
}

json without_layer(json config, int layer) {
  const int layers = config["num_hidden_layers"];
  const int shared = config.value("num_kv_shared_layers", 0);
  for (const char* list : {"layer_types", "activation_sparsity_pattern", "intermediate_size"}) {
    erase_entry(config, list, layer);
  }
  erase_from_map(config, layer);
  if (layer >= layers - shared) config["num_kv_shared_layers"] = shared - 1;
  config["num_hidden_layers"] = layers - 1;
  return config;
}

class ModelSimplifier {
 public:
  ModelSimplifier(const ModelSpec& model, int largest_token)
      : model_(model), largest_token_(largest_token), config_(json::parse(model.config_text)) {}

  std::vector<ModelSpec> all() {
    layers();
    sharing();
    switches();
    sizes();
    weights();
    return std::move(found_);
  }

 private:
  void offer(const json& config) {
    if (config == config_ || !valid(config)) return;
    ModelSpec model = model_;
    model.config_text = config.dump();
    found_.push_back(std::move(model));
  }

  template <class T>
  void set(const char* name, const T& value) {
    if (!config_.contains(name) || config_[name] == json(value)) return;
    json config = config_;
    config[name] = value;
    offer(config);
  }

  void layers() {
    const int count = config_.value("num_hidden_layers", 0);
    json half = config_;
    for (int i = count; i > (count + 1) / 2; --i) half = without_layer(half, 0);
    if (count > 2) offer(half);
    for (int i = 0; i < count; ++i) offer(without_layer(config_, i));
  }

  void sharing() {
    const int shared = config_.value("num_kv_shared_layers", 0);
    if (shared > 0) set("num_kv_shared_layers", 0);
    if (shared > 1) set("num_kv_shared_layers", shared - 1);
    if (!config_.contains("kv_sharing_map")) return;
    json config = config_;
    config.erase("kv_sharing_map");
    offer(config);
    const std::vector<int> map = config_["kv_sharing_map"];
    for (int i = 0; i < static_cast<int>(map.size()); ++i) {
      if (map[i] == i) continue;
      config = config_;
      config["kv_sharing_map"][i] = i;
      offer(config);
    }
  }

  void switches() {
    set("enable_moe_block", false);
    set("use_double_wide_mlp", false);
    set("attention_k_eq_v", false);
    set("attention_bias", false);
    set("tie_word_embeddings", true);
    set("final_logit_softcapping", nullptr);
    set("altup_correct_scale", false);
    set("altup_active_idx", 0);
    set("hidden_size_per_layer_input", 0);
    set("num_global_key_value_heads", nullptr);
    set("rms_norm_eps", 1e-6);
    plain_list("activation_sparsity_pattern", 0.0);
    set("layer_types",
        json(std::vector<std::string>(config_["layer_types"].size(), "full_attention")));
    for (const char* type : {"full_attention", "sliding_attention"}) {
      if (!config_.contains("rope_parameters")) continue;
      json config = config_;
      config["rope_parameters"][type] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
      offer(config);
    }
  }

  void plain_list(const char* name, double value) {
    if (!config_.contains(name) || !config_[name].is_array()) return;
    set(name, json(std::vector<double>(config_[name].size(), value)));
  }

  void down(const char* name, int least) {
    if (!config_.contains(name) || !config_[name].is_number_integer()) return;
    const int value = config_[name];
    for (int smaller : {least, value / 2, value - 1}) {
      if (smaller >= least && smaller < value) set(name, smaller);
    }
  }

  void sizes() {
    const int head_dim = config_.value("head_dim", 0);
    const int global_head_dim = config_.value("global_head_dim", head_dim);
    if (global_head_dim > head_dim) set("global_head_dim", head_dim);
    if (global_head_dim < head_dim) set("head_dim", global_head_dim);
    heads();
    down("hidden_size", 4);
    if (config_["intermediate_size"].is_array()) {
      set("intermediate_size", json(std::vector<int>(config_["intermediate_size"].size(), 4)));
    }
    down("intermediate_size", 4);
    for (const char* name : {"altup_num_inputs", "laurel_rank", "num_experts", "top_k_experts",
                             "moe_intermediate_size"}) {
      down(name, 1);
    }
    down("hidden_size_per_layer_input", kLeastNormed);
    down("head_dim", kLeastNormed + 1);  // even
    down("global_head_dim", kLeastNormed + 1);
    down("sliding_window", 1);
    vocabulary();
  }

  /// Heads go down together: their ratio is part of what makes a config valid.
  void heads() {
    for (const auto& [query, key_value] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
      if (config_.value("num_attention_heads", 0) <= query) continue;
      json config = config_;
      config["num_attention_heads"] = query;
      config["num_key_value_heads"] = key_value;
      offer(config);
    }
  }

  void vocabulary() {
    const int vocab = config_.value("vocab_size", 0);
    for (int smaller : {std::max(largest_token_ + 1, 2), vocab / 2}) {
      if (smaller >= vocab || smaller <= largest_token_) continue;
      json config = config_;
      config["vocab_size"] = smaller;
      config["vocab_size_per_layer_input"] = smaller;
      offer(config);
    }
    set("vocab_size_per_layer_input", vocab);
  }

  void weights() {
    ModelSpec model = model_;
    model.weights.dtype = Dtype::f32;
    if (model_.weights.dtype != Dtype::f32) found_.push_back(model);
    model = model_;
    model.weights.dead_tensors = DeadTensors::absent;
    if (model_.weights.dead_tensors != DeadTensors::absent) found_.push_back(model);
  }

  const ModelSpec& model_;
  int largest_token_;
  json config_;
  std::vector<ModelSpec> found_;
};

}  // namespace

std::vector<ModelSpec> simpler_models(const ModelSpec& model, int largest_token) {
  if (!model.folder.empty()) return {};
  try {
    return ModelSimplifier(model, largest_token).all();
  } catch (const json::exception&) {
    return {};  // a config of another form than ours (text_config, …): left as it is
  }
}

ModelConfig config_of(const ModelSpec& model) {
  if (!model.folder.empty()) return Checkpoint::open(model.folder)->config();
  return parse_model_config(parse_config_text(model.config_text, "the case's config"));
}

}  // namespace kvconform
