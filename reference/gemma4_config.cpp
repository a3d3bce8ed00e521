// Gemma 4: full layers with head sizes of their own (old form: global_head_dim; new form:
// per_layer_config), values taken from keys, doubled feed-forward of consumers, experts.
// Defaults as in transformers.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "reference/error.h"
#include "reference/family_config.h"
#include "reference/rope_config.h"

namespace kvconform {
namespace {

using nlohmann::json;

// transformers forces this, whatever the list says; so the note and not a refusal.
void force_last_layer_full(Fields& fields, ModelConfig& config) {
  if (config.layer_types.back() == AttentionType::full) return;
  config.layer_types.back() = AttentionType::full;
  if (fields.has_value("layer_types")) {
    fields.note(fmt::format("layer_types[{}]", config.num_layers - 1),
                "the last layer of Gemma 4 is always a full one");
  }
}

void read_old_heads(Fields& fields, ModelConfig& config) {
  const int head_dim = fields.integer("global_head_dim", 512, size_range);
  int heads = config.key_value_heads.front();
  if (fields.has_value("num_global_key_value_heads")) {
    const int given = fields.integer("num_global_key_value_heads", 0, head_count_range);
    if (config.attention_k_eq_v) {
      heads = given;
    } else {
      fields.note("num_global_key_value_heads", "holds only together with attention_k_eq_v");
    }
  }
  for (int i = 0; i < config.num_layers; ++i) {
    if (config.layer_types[i] != AttentionType::full) continue;
    config.head_dims[i] = head_dim;
    config.key_value_heads[i] = heads;
  }
}

// Keys are layer numbers, written as decimal strings without sign or leading zeros.
int layer_number(const Fields& layers, const std::string& key, int num_layers) {
  int layer = -1;
  const char* end = key.data() + key.size();
  const auto [rest, problem] = std::from_chars(key.data(), end, layer);
  const bool number = problem == std::errc() && rest == end && std::to_string(layer) == key;
  if (number && layer >= 0 && layer < num_layers) return layer;
  throw Error("KV1019", fmt::format("{} names no layer", layers.full_name(shown_name(key))),
              fmt::format("use layer numbers from 0 to {} as keys", num_layers - 1));
}

void read_new_heads(Fields& fields, ModelConfig& config) {
  const json& given = *fields.find("per_layer_config");
  Fields layers(given, fields.full_name("per_layer_config."));
  for (const std::string& key : layers.names()) {
    const int i = layer_number(layers, key, config.num_layers);
    Fields layer(*layers.find(key), layers.full_name(key) + ".");
    config.head_dims[i] = layer.integer("head_dim", config.head_dims[i], size_range);
    config.key_value_heads[i] =
        layer.integer("num_key_value_heads", config.key_value_heads[i], head_count_range);
    layer.refuse_unknown("only head_dim and num_key_value_heads may differ between layers");
  }
  fields.ignore("global_head_dim", "per_layer_config is given and decides alone");
  fields.ignore("num_global_key_value_heads", "per_layer_config is given and decides alone");
}

void read_gemma4_heads(Fields& fields, ModelConfig& config) {
  config.attention_k_eq_v = fields.boolean("attention_k_eq_v", false);
  config.head_dims.assign(config.num_layers, fields.integer("head_dim", 256, size_range));
  config.key_value_heads.assign(config.num_layers,
                                fields.integer("num_key_value_heads", 4, head_count_range));
  if (fields.has("per_layer_config")) {
    read_new_heads(fields, config);
  } else {
    read_old_heads(fields, config);
  }
}

int required_expert_size(Fields& fields, const char* name, IntegerRange range) {
  if (fields.has_value(name)) return fields.integer(name, 0, range);
  throw Error("KV1017",
              fmt::format("enable_moe_block is true, but {} is {}", fields.full_name(name),
                          fields.has(name) ? "null" : "missing"),
              "give num_experts, top_k_experts and moe_intermediate_size");
}

void read_experts(Fields& fields, ModelConfig& config) {
  config.enable_moe_block = fields.boolean("enable_moe_block", false);
  if (!config.enable_moe_block) {
    for (const char* name : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
      fields.ignore(name, "enable_moe_block is false");
    }
    return;
  }
  config.num_experts = required_expert_size(fields, "num_experts", head_count_range);
  config.top_k_experts = required_expert_size(fields, "top_k_experts", {1, config.num_experts});
  config.moe_intermediate_size = required_expert_size(fields, "moe_intermediate_size", size_range);
}

void read_direction(Fields& fields, ModelConfig& config) {
  if (!fields.has_value("use_bidirectional_attention")) return;
  const std::string mode = fields.text("use_bidirectional_attention", "");
  config.bidirectional_all = mode == "all";
  if (mode == "vision") {
    fields.note("use_bidirectional_attention", "\"vision\" concerns image tokens; text is causal");
  } else if (mode != "all") {
    throw Error(
        "KV1010",
        fmt::format("{} is {}", fields.full_name("use_bidirectional_attention"), shown(json(mode))),
        "give null, \"vision\" or \"all\"");
  }
}

}  // namespace

void read_gemma4(Fields& fields, ModelConfig& config) {
  read_common(fields, config, {262144, 262144, 2304, 30, 8, 0, nullptr}, 6);
  force_last_layer_full(fields, config);
  read_window(fields, config);
  read_gemma4_heads(fields, config);
  read_experts(fields, config);
  read_direction(fields, config);
  read_gemma4_ropes(fields, config);
  config.use_double_wide_mlp = fields.boolean("use_double_wide_mlp", false);
  config.intermediate_sizes.assign(config.num_layers,
                                   fields.integer("intermediate_size", 9216, size_range));
  config.activation_sparsity.assign(config.num_layers, 0.0);
}

}  // namespace kvconform
