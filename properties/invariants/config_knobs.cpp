// The tables of knobs. Weights are a function of recipe, name and shape, so a turned model keeps
// every tensor whose shape the knob does not change.
#include "properties/invariants/config_knobs.h"

#include "reference/layer_plan.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Turned = std::optional<json>;
using In = const KnobInput&;

bool gemma3n(In in) {
  return in.parsed.family == Family::gemma3n;
}
bool gemma4(In in) {
  return in.parsed.family == Family::gemma4;
}

Turned with(In in, const char* field, const json& value) {
  json config = in.config;
  config[field] = value;
  if (config == in.config) return std::nullopt;
  return config;
}

Turned flipped(In in, const char* field) {
  if (!in.config.contains(field)) return std::nullopt;
  return with(in, field, !in.config[field].get<bool>());
}

int layer_by_choice(In in) {
  return static_cast<int>(in.choice % static_cast<std::uint64_t>(in.parsed.num_layers));
}

Turned window(In in) {
  const int old = in.parsed.sliding_window;
  return with(in, "sliding_window", in.choice % 2 == 0 || old == 1 ? old + 1 : old - 1);
}

Turned epsilon(In in) {
  return with(in, "rms_norm_eps", 0.05);
}

Turned soft_cap(In in) {
  if (!in.parsed.final_logit_softcapping) return with(in, "final_logit_softcapping", 1.5);
  if (in.choice % 2 == 0) return with(in, "final_logit_softcapping", nullptr);
  return with(in, "final_logit_softcapping", *in.parsed.final_logit_softcapping / 4);
}

Turned rope_field(In in, const char* type, const char* field, const json& value) {
  json config = in.config;
  config["rope_parameters"][type][field] = value;
  if (config == in.config) return std::nullopt;
  return config;
}

Turned full_theta(In in) {
  return rope_field(in, "full_attention", "rope_theta", in.parsed.full_rope.theta == 50 ? 5e5 : 50);
}
Turned sliding_theta(In in) {
  return rope_field(in, "sliding_attention", "rope_theta",
                    in.parsed.sliding_rope.theta == 50 ? 5e5 : 50);
}

Turned stretched(In in, const char* type, const Rope& rope) {
  json config = in.config;
  json& entry = config["rope_parameters"][type];
  if (rope.kind == Rope::Kind::plain) entry["rope_type"] = "linear";
  entry["factor"] = rope.factor == 1 ? 4.0 : rope.factor * 2;
  return config;
}
Turned full_factor(In in) {
  return stretched(in, "full_attention", in.parsed.full_rope);
}
Turned sliding_factor(In in) {
  return stretched(in, "sliding_attention", in.parsed.sliding_rope);
}

Turned rotated_share(In in) {
  if (in.parsed.full_rope.kind != Rope::Kind::proportional) return std::nullopt;
  const double old = in.parsed.full_rope.partial_rotary_factor;
  return rope_field(in, "full_attention", "partial_rotary_factor", old < 0.6 ? 1.0 : 0.25);
}

Turned layer_type(In in) {
  json config = in.config;
  json& type = config["layer_types"][layer_by_choice(in)];
  type = type == "full_attention" ? "sliding_attention" : "full_attention";
  return config;
}

Turned shared_layers(In in) {
  if (in.parsed.kv_sharing_map) return std::nullopt;
  const int old = in.parsed.num_kv_shared_layers;
  return with(in, "num_kv_shared_layers", old > 0 ? old - 1 : 1);
}

/// A reader is given another owner, or keys of its own.
Turned sharing_map(In in) {
  const std::vector<LayerPlan> plan = plan_layers(in.parsed);
  json map = json::array();
  for (const LayerPlan& layer : plan) map.push_back(layer.owner);
  for (const LayerPlan& layer : plan) {
    if (layer.owns_keys()) continue;
    map[layer.layer] = layer.layer;
    for (const LayerPlan& other : plan) {
      const bool fits = other.layer < layer.layer && other.owns_keys() && other.type == layer.type;
      if (fits && other.layer != layer.owner) map[layer.layer] = other.layer;
    }
    Turned turned = with(in, "kv_sharing_map", map);
    if (turned) (*turned)["num_kv_shared_layers"] = 0;
    return turned;
  }
  return std::nullopt;
}

Turned tied(In in) {
  return flipped(in, "tie_word_embeddings");
}
Turned bias(In in) {
  return flipped(in, "attention_bias");
}

Turned key_value_heads(In in) {
  const int old = in.config["num_key_value_heads"], heads = in.parsed.num_attention_heads;
  return with(in, "num_key_value_heads", old == heads ? 1 : heads);
}

Turned active_stream(In in) {
  if (!gemma3n(in) || in.parsed.altup_num_inputs < 2) return std::nullopt;
  return with(in, "altup_active_idx",
              (in.parsed.altup_active_idx + 1) % in.parsed.altup_num_inputs);
}

Turned output_scale(In in) {
  return gemma3n(in) ? flipped(in, "altup_correct_scale") : std::nullopt;
}

Turned sparsity(In in) {
  if (!gemma3n(in)) return std::nullopt;
  const int layer = layer_by_choice(in);
  std::vector<double> pattern = in.parsed.activation_sparsity;
  pattern[layer] = pattern[layer] > 0 ? 0 : 0.7;
  return with(in, "activation_sparsity_pattern", pattern);
}

Turned smaller_table(In in) {
  if (!gemma3n(in)) return std::nullopt;
  const int vocab = in.parsed.vocab_size, old = in.parsed.vocab_size_per_layer_input;
  return with(in, "vocab_size_per_layer_input", old < vocab ? vocab : vocab / 2);
}

Turned values_from_keys(In in) {
  if (!gemma4(in)) return std::nullopt;
  return flipped(in, "attention_k_eq_v");
}

Turned double_width(In in) {
  return gemma4(in) ? flipped(in, "use_double_wide_mlp") : std::nullopt;
}

Turned global_head_size(In in) {
  if (!gemma4(in)) return std::nullopt;
  return with(in, "global_head_dim", in.parsed.head_dims.back() == 8 ? 6 : 8);
}

Turned global_heads(In in) {
  if (!gemma4(in) || !in.parsed.attention_k_eq_v) return std::nullopt;
  const int old = in.parsed.key_value_heads.back(), heads = in.parsed.num_attention_heads;
  return with(in, "num_global_key_value_heads", old == heads ? 1 : heads);
}

Turned experts(In in) {
  if (!gemma4(in)) return std::nullopt;
  json config = in.config;
  config["enable_moe_block"] = !in.parsed.enable_moe_block;
  config["num_experts"] = 3;
  config["top_k_experts"] = 2;
  config["moe_intermediate_size"] = 5;
  return config;
}

Turned chosen_experts(In in) {
  if (!in.parsed.enable_moe_block || in.parsed.num_experts < 2) return std::nullopt;
  return with(in, "top_k_experts", in.parsed.top_k_experts > 1 ? 1 : 2);
}

Turned per_layer_inputs(In in) {
  if (!gemma4(in)) return std::nullopt;
  return with(in, "hidden_size_per_layer_input", in.parsed.hidden_size_per_layer_input > 0 ? 0 : 5);
}

Turned direction(In in) {
  return gemma4(in) ? with(in, "use_bidirectional_attention", "all") : std::nullopt;
}

}  // namespace

const std::vector<Knob>& config_knobs() {
  static const std::vector<Knob> knobs = {
      {"sliding_window", "", false, window},
      {"rms_norm_eps", "", false, epsilon},
      {"final_logit_softcapping", "", false, soft_cap},
      {"rope_theta of full layers", "", false, full_theta},
      {"rope_theta of sliding layers", "", false, sliding_theta},
      {"the rotary factor of full layers", "", false, full_factor},
      {"the rotary factor of sliding layers", "", false, sliding_factor},
      {"partial_rotary_factor", "", false, rotated_share},
      {"layer_types", "", false, layer_type},
      {"num_kv_shared_layers", "", false, shared_layers},
      {"kv_sharing_map", "sharing_map", false, sharing_map},
      {"tie_word_embeddings", "", false, tied},
      {"attention_bias", "", false, bias},
      {"num_key_value_heads", "", false, key_value_heads},
      {"altup_active_idx", "", false, active_stream},
      {"altup_correct_scale", "", false, output_scale},
      {"activation_sparsity_pattern", "", false, sparsity},
      {"vocab_size_per_layer_input", "", false, smaller_table},
      {"attention_k_eq_v", "", false, values_from_keys},
      {"use_double_wide_mlp", "", false, double_width},
      {"global_head_dim", "", false, global_head_size},
      {"num_global_key_value_heads", "", false, global_heads},
      {"enable_moe_block", "", false, experts},
      {"top_k_experts", "", false, chosen_experts},
      {"hidden_size_per_layer_input", "", false, per_layer_inputs},
      {"use_bidirectional_attention", "", true, direction}};
  return knobs;
}

const std::vector<HarmlessField>& harmless_config_fields() {
  static const std::vector<HarmlessField> fields = {
      {"use_cache", "false", {}},
      {"attention_dropout", "0.5", {}},
      {"initializer_range", "3.0", {}},
      {"pad_token_id", "1", {}},
      {"bos_token_id", "0", {}},
      {"eos_token_id", "[0, 1, 2]", {}},
      {"max_position_embeddings", "2", {}},
      {"query_pre_attn_scalar", "7", {}},
      {"attn_logit_softcapping", "0.5", {}},
      {"architectures", "[\"AnotherForCausalLM\"]", {}},
      {"transformers_version", "\"1.0.0\"", {}},
      {"temperature", "0.25", {}},
      {"top_k", "1", {}},
      {"chunk_size_feed_forward", "1", {}},
      {"num_labels", "5", {}},
      {"altup_coef_clip", "0.01", Family::gemma3n},
      {"altup_lr_multiplier", "9.0", Family::gemma3n},
      {"use_bidirectional_attention", "\"vision\"", Family::gemma4}};
  return fields;
}

}  // namespace kvconform
