// Configurations as data. Every field that shapes the model is spelled out, so that a change of
// defaults elsewhere cannot change a model made here.
#include "reference/published_configs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "reference/error.h"

namespace kvconform {

namespace {

using nlohmann::json;

json layer_types(int layers, int full_every) {
  json types = json::array();
  for (int i = 1; i <= layers; ++i)
    types.push_back(i % full_every == 0 ? "full_attention" : "sliding_attention");
  return types;
}

json rope_parameters(Family family) {
  json full = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  if (family == Family::gemma4)
    full = {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}};
  return {{"full_attention", full},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
}

json common_fields(Family family) {
  json config = {{"model_type", to_string(family)},
                 {"hidden_activation", "gelu_pytorch_tanh"},
                 {"rms_norm_eps", 1e-6},
                 {"tie_word_embeddings", true},
                 {"attention_bias", false},
                 {"final_logit_softcapping", 30.0},
                 {"rope_parameters", rope_parameters(family)}};
  if (family == Family::gemma3n)
    config.update(
        {{"altup_num_inputs", 4}, {"altup_active_idx", 0}, {"altup_correct_scale", true}});
  else
    config.update({{"attention_k_eq_v", false}, {"enable_moe_block", false}});
  return config;
}

json gemma3n_e2b() {
  json config = common_fields(Family::gemma3n);
  config.update(
      {{"vocab_size", 262400}, {"vocab_size_per_layer_input", 262144}, {"hidden_size", 2048}});
  config.update({{"num_hidden_layers", 30},
                 {"layer_types", layer_types(30, 5)},
                 {"num_kv_shared_layers", 10}});
  config.update({{"num_attention_heads", 8},
                 {"num_key_value_heads", 2},
                 {"head_dim", 256},
                 {"sliding_window", 512}});
  config.update(
      {{"intermediate_size", 8192}, {"hidden_size_per_layer_input", 256}, {"laurel_rank", 64}});
  json sparsity = json::array();
  for (int i = 0; i < 30; ++i) sparsity.push_back(i < 10 ? 0.95 : 0.0);
  config["activation_sparsity_pattern"] = sparsity;
  return config;
}

json gemma4_e2b() {
  json config = common_fields(Family::gemma4);
  config.update(
      {{"vocab_size", 262144}, {"vocab_size_per_layer_input", 262144}, {"hidden_size", 1536}});
  config.update({{"num_hidden_layers", 35},
                 {"layer_types", layer_types(35, 5)},
                 {"num_kv_shared_layers", 20}});
  config.update({{"num_attention_heads", 8},
                 {"num_key_value_heads", 1},
                 {"head_dim", 256},
                 {"global_head_dim", 512}});
  config.update(
      {{"sliding_window", 512}, {"intermediate_size", 6144}, {"use_double_wide_mlp", true}});
  config["hidden_size_per_layer_input"] = 256;
  return config;
}

// Lists with one entry a layer follow the new depth: repeated or cut.
void change_depth(json& config, int layers, const std::set<std::string>& given) {
  constexpr int most = 100'000;  // more is refused by parse_model_config; make no list for it
  for (const char* field : {"layer_types", "activation_sparsity_pattern", "intermediate_size"}) {
    if (given.contains(field) || !config.contains(field) || !config[field].is_array()) continue;
    const json old = config[field];
    json list = json::array();
    for (int i = 0; i < layers && i < most && !old.empty(); ++i)
      list.push_back(old[static_cast<std::size_t>(i) % old.size()]);
    config[field] = list;
  }
}

json parsed_value(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

}  // namespace

std::vector<std::string> published_config_names() {
  return {"gemma3n-e2b", "gemma4-e2b"};
}

json published_config(const std::string& name) {
  if (name == "gemma3n-e2b") return gemma3n_e2b();
  if (name == "gemma4-e2b") return gemma4_e2b();
  throw Error("KV1316", "no published configuration is called " + name,
              "choose gemma3n-e2b or gemma4-e2b");
}

json tiny_config(Family family) {
  json config = common_fields(family);
  config.update({{"vocab_size", 128}, {"vocab_size_per_layer_input", 128}, {"hidden_size", 32}});
  config.update(
      {{"num_hidden_layers", 6}, {"layer_types", layer_types(6, 3)}, {"num_kv_shared_layers", 3}});
  config.update({{"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 8},
                 {"sliding_window", 8}});
  config.update({{"intermediate_size", 48}, {"hidden_size_per_layer_input", 8}});
  if (family == Family::gemma3n) {
    config.update(
        {{"laurel_rank", 4}, {"activation_sparsity_pattern", {0.5, 0.0, 0.0, 0.5, 0.0, 0.0}}});
  } else {
    config.update({{"global_head_dim", 16}, {"use_double_wide_mlp", true}});
  }
  return config;
}

json config_for_create(json config, const std::vector<std::string>& overrides) {
  json& text = config.contains("text_config") ? config["text_config"] : config;
  std::set<std::string> given;
  const json old_layers = text.value("num_hidden_layers", json());
  for (const std::string& entry : overrides) {
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error("KV1317", fmt::format("\"{}\" is no FIELD=VALUE", entry),
                  "write for example sliding_window=16");
    const std::string field = entry.substr(0, equals);
    text[field] = parsed_value(entry.substr(equals + 1));
    given.insert(field);
  }
  const json& layers = text["num_hidden_layers"];
  if (layers != old_layers && layers.is_number_integer())
    change_depth(text, layers.get<int>(), given);
  parse_model_config(config);
  return config;
}

}  // namespace kvconform
