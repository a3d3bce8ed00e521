// The same model under another config: other words for one thing, options at the value at which
// they do nothing. Sources: model-spec.md, sections 1, 4, 5 and 6.
#include <nlohmann/json.hpp>

#include "properties/invariants/equal_configuration_rules.h"
#include "reference/model_config.h"

namespace kvconform {
namespace {

using nlohmann::json;

std::vector<int> owners(const json& config) {
  std::vector<int> owners;
  for (const LayerPlan& layer : plan_layers(parse_model_config(config))) {
    owners.push_back(layer.owner);
  }
  return owners;
}

EqualPair map_of_the_tail(const RuleInput& in) {
  json left = in.config;
  left.erase("kv_sharing_map");
  json right = left;
  right["kv_sharing_map"] = owners(left);
  right["num_kv_shared_layers"] = 0;
  return drawn_pair(in, left, right);
}

EqualPair old_rotary_keys(const RuleInput& in) {
  json left = in.config;
  json &sliding = left["rope_parameters"]["sliding_attention"],
       &full = left["rope_parameters"]["full_attention"];
  sliding["rope_type"] = "default";  // the old keys scale full layers only
  sliding.erase("factor");
  json right = left;
  right.erase("rope_parameters");
  right["rope_theta"] = full["rope_theta"];
  right["rope_local_base_freq"] = sliding["rope_theta"];
  right["rope_scaling"] = nullptr;
  if (full.contains("factor")) {
    right["rope_scaling"] = {{"type", full["rope_type"]}, {"factor", full["factor"]}};
  }
  return drawn_pair(in, left, right);
}

EqualPair one_width_for_all(const RuleInput& in) {
  json left = in.config;
  json right = left;
  right["intermediate_size"] = in.parsed.intermediate_sizes[0];
  left["intermediate_size"] =
      std::vector<int>(in.parsed.num_layers, in.parsed.intermediate_sizes[0]);
  return drawn_pair(in, left, right);
}

bool short_gemma3n(const RuleInput& in) {
  return gemma3n_only(in) && in.parsed.num_layers <= 10;
}

EqualPair no_sparsity(const RuleInput& in) {
  json left = in.config;
  left["activation_sparsity_pattern"] = std::vector<double>(in.parsed.num_layers, 0.0);
  json right = left;
  right["activation_sparsity_pattern"] = nullptr;
  return drawn_pair(in, left, right);
}

EqualPair sizes_layer_by_layer(const RuleInput& in) {
  json right = in.config;
  json layers = json::object();
  for (int i = 0; i < in.parsed.num_layers; ++i) {
    if (in.parsed.layer_types[i] != AttentionType::full) continue;
    json& layer = layers[std::to_string(i)];
    layer["head_dim"] = in.parsed.head_dims[i];
    if (in.parsed.key_value_heads[i] != in.config["num_key_value_heads"]) {
      layer["num_key_value_heads"] = in.parsed.key_value_heads[i];
    }
  }
  right["per_layer_config"] = layers;
  right.erase("global_head_dim");
  right.erase("num_global_key_value_heads");
  return drawn_pair(in, in.config, right);
}

EqualPair default_layer_types(const RuleInput& in) {
  json left = in.config;
  left.erase("kv_sharing_map");
  left["num_kv_shared_layers"] = 0;
  const int period = gemma3n_only(in) ? 5 : 6, layers = in.parsed.num_layers;
  std::vector<std::string> types;
  for (int i = 0; i < layers; ++i) {
    const bool full = (i + 1) % period == 0 || (gemma4_only(in) && i + 1 == layers);
    types.push_back(full ? "full_attention" : "sliding_attention");
  }
  left["layer_types"] = types;
  json right = left;
  right.erase("layer_types");
  return drawn_pair(in, left, right);
}

EqualPair whole_head_rotates(const RuleInput& in) {
  json left = in.config;
  json& full = left["rope_parameters"]["full_attention"];
  full = {{"rope_type", "proportional"},
          {"rope_theta", full["rope_theta"]},
          {"partial_rotary_factor", 1.0}};
  json right = left;
  right["rope_parameters"]["full_attention"] = {{"rope_type", "default"},
                                                {"rope_theta", full["rope_theta"]}};
  return drawn_pair(in, left, right);
}

EqualPair stretched_by_one(const RuleInput& in) {
  json left = in.config, right = in.config;
  for (const char* type : {"sliding_attention", "full_attention"}) {
    const json theta = in.config["rope_parameters"][type]["rope_theta"];
    left["rope_parameters"][type] = {
        {"rope_type", "linear"}, {"rope_theta", theta}, {"factor", 1.0}};
    right["rope_parameters"][type] = {{"rope_type", "default"}, {"rope_theta", theta}};
  }
  return drawn_pair(in, left, right);
}

/// Sliding layers with a window that ends exactly at the first token, against full ones. Both types
/// must be alike in everything else.
EqualPair window_over_everything(const RuleInput& in) {
  json left = in.config;
  left["rope_parameters"]["full_attention"] = left["rope_parameters"]["sliding_attention"];
  left["sliding_window"] = in.longest + (in.choice % 2 == 0 ? 0 : 9);
  if (gemma4_only(in)) {
    left["global_head_dim"] = left["head_dim"];
    left["attention_k_eq_v"] = false;
    left.erase("num_global_key_value_heads");
  }
  // Without a map, other types would make other owners.
  if (in.takes_maps) left["kv_sharing_map"] = owners(in.config);
  if (!in.takes_maps) left.erase("kv_sharing_map");
  left["num_kv_shared_layers"] = 0;
  json right = left;
  right["layer_types"] = std::vector<std::string>(in.parsed.num_layers, "full_attention");
  return drawn_pair(in, left, right);
}

/// The deviation is known: the left logits are capped in double precision before they are compared.
/// The cap keeps z / c above the subnormal numbers of a float16 engine.
EqualPair cap_that_cannot_bite(const RuleInput& in) {
  constexpr double cap = 16384;
  json left = in.config;
  left["final_logit_softcapping"] = nullptr;
  json right = left;
  right["final_logit_softcapping"] = cap;
  EqualPair pair = drawn_pair(in, left, right);
  pair.cap = cap;
  return pair;
}

}  // namespace

const std::vector<EqualityRule>& spelling_rules() {
  const auto with_maps = [](const RuleInput& in) { return in.takes_maps; };
  static const std::vector<EqualityRule> rules = {
      {"an explicit map of the owners is the default sharing", true, true, with_maps,
       map_of_the_tail},
      {"old and new rotary fields say the same", true, true, gemma3n_only, old_rotary_keys},
      {"one feed-forward width is a list of equal ones", true, true, gemma3n_only,
       one_width_for_all},
      {"sparsity 0 everywhere is no sparsity pattern", true, true, short_gemma3n, no_sparsity},
      {"per_layer_config says what global_head_dim says", true, true, gemma4_only,
       sizes_layer_by_layer},
      {"the family's layer types, spelled out, are the default", true, true, any_model,
       default_layer_types},
      {"a proportional rotary embedding of the whole head is the default one", false, true,
       gemma4_only, whole_head_rotates},
      {"a linear rotary embedding stretched by 1 is the default one", false, true, any_model,
       stretched_by_one},
      {"a window as long as the prompt is none", false, true, any_model, window_over_everything},
      {"a soft cap that cannot bite is none", false, true, any_model, cap_that_cannot_bite}};
  return rules;
}

}  // namespace kvconform
