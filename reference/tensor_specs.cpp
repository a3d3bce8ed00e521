// Names and shapes of every tensor, one line each, as tables. Letters: model_config.h.
#include "reference/tensor_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kvconform {

namespace {

using Slots = std::vector<LayerSlot>;
using W = LayerWeights;

std::string weight(const char* name) {
  return std::string(name) + ".weight";
}

void add(Slots& slots, Slots more) {
  std::move(more.begin(), more.end(), std::back_inserter(slots));
}

Slots attention_slots(const ModelConfig& config, const LayerPlan& layer) {
  const std::int64_t H = config.hidden_size, D = layer.head_dim;
  const std::int64_t queries = layer.query_heads * D, keys = layer.key_value_heads * D;
  const bool own_values = layer.owns_keys() && !layer.values_from_keys;
  Slots slots = {{weight("self_attn.q_proj"), {queries, H}, &W::q_proj},
                 {weight("self_attn.o_proj"), {H, queries}, &W::o_proj},
                 {weight("self_attn.q_norm"), {D}, &W::q_norm}};
  if (layer.owns_keys())
    add(slots, {{weight("self_attn.k_proj"), {keys, H}, &W::k_proj},
                {weight("self_attn.k_norm"), {D}, &W::k_norm}});
  if (own_values) add(slots, {{weight("self_attn.v_proj"), {keys, H}, &W::v_proj}});
  if (config.attention_bias) {
    add(slots, {{"self_attn.q_proj.bias", {queries}, &W::q_bias},
                {"self_attn.o_proj.bias", {H}, &W::o_bias}});
    if (layer.owns_keys()) add(slots, {{"self_attn.k_proj.bias", {keys}, &W::k_bias}});
    if (own_values) add(slots, {{"self_attn.v_proj.bias", {keys}, &W::v_bias}});
  }
  return slots;
}

Slots block_slots(const ModelConfig& config, const LayerPlan& layer) {
  const std::int64_t H = config.hidden_size, I = layer.intermediate_size;
  return {{weight("input_layernorm"), {H}, &W::input_layernorm},
          {weight("post_attention_layernorm"), {H}, &W::post_attention_layernorm},
          {weight("pre_feedforward_layernorm"), {H}, &W::pre_feedforward_layernorm},
          {weight("post_feedforward_layernorm"), {H}, &W::post_feedforward_layernorm},
          {weight("mlp.gate_proj"), {I, H}, &W::gate_proj},
          {weight("mlp.up_proj"), {I, H}, &W::up_proj},
          {weight("mlp.down_proj"), {H, I}, &W::down_proj}};
}

Slots per_layer_input_slots(const ModelConfig& config) {
  const std::int64_t H = config.hidden_size, E = config.hidden_size_per_layer_input;
  if (E == 0) return {};
  return {{weight("per_layer_input_gate"), {E, H}, &W::per_layer_input_gate},
          {weight("per_layer_projection"), {H, E}, &W::per_layer_projection},
          {weight("post_per_layer_input_norm"), {H}, &W::post_per_layer_input_norm}};
}

Slots gemma3n_slots(const ModelConfig& config) {
  const std::int64_t H = config.hidden_size, N = config.altup_num_inputs, R = config.laurel_rank;
  return {{"altup.correct_output_scale", {H}, &W::altup_correct_output_scale},
          {weight("altup.prediction_coefs"), {N * N, N}, &W::altup_prediction_coefs},
          {weight("altup.correction_coefs"), {N, N}, &W::altup_correction_coefs},
          {weight("altup.modality_router"), {N, H}, &W::altup_modality_router},
          {weight("altup.router_norm"), {H}, &W::altup_router_norm},
          {weight("laurel.linear_left"), {R, H}, &W::laurel_left},
          {weight("laurel.linear_right"), {H, R}, &W::laurel_right},
          {weight("laurel.post_laurel_norm"), {H}, &W::post_laurel_norm}};
}

Slots gemma4_slots(const ModelConfig& config) {
  const std::int64_t H = config.hidden_size, X = config.num_experts,
                     Im = config.moe_intermediate_size;
  Slots slots = {{"layer_scalar", {1}, &W::layer_scalar}};
  if (config.enable_moe_block)
    add(slots, {{weight("router.proj"), {X, H}, &W::router_proj},
                {"router.scale", {H}, &W::router_scale},
                {"router.per_expert_scale", {X}, &W::router_per_expert_scale},
                {"experts.gate_up_proj", {X, 2 * Im, H}, &W::experts_gate_up},
                {"experts.down_proj", {X, H, Im}, &W::experts_down},
                {weight("pre_feedforward_layernorm_2"), {H}, &W::pre_feedforward_layernorm_2},
                {weight("post_feedforward_layernorm_1"), {H}, &W::post_feedforward_layernorm_1},
                {weight("post_feedforward_layernorm_2"), {H}, &W::post_feedforward_layernorm_2}});
  return slots;
}

// What files written before consumers lost their projections hold for them, in full.
void add_dead_specs(const ModelConfig& config, const LayerPlan& layer,
                    std::vector<TensorSpec>& specs) {
  LayerPlan owner = layer;
  owner.role = Role::independent;
  for (LayerSlot& slot : attention_slots(config, owner))
    if (is_dead_name(slot.name, layer))
      specs.push_back({layer_prefix(layer.layer) + slot.name, std::move(slot.shape), true});
}

}  // namespace

std::string layer_prefix(int layer) {
  return fmt::format("layers.{}.", layer);
}
std::string altup_projection_name(int index) {
  return fmt::format("altup_projections.{}.weight", index);
}
std::string altup_unembed_projection_name(int index) {
  return fmt::format("altup_unembed_projections.{}.weight", index);
}

std::vector<ModelSlot> model_slots(const ModelConfig& config) {
  const std::int64_t V = config.vocab_size, H = config.hidden_size, L = config.num_layers;
  const std::int64_t E = config.hidden_size_per_layer_input, Vp = config.vocab_size_per_layer_input;
  std::vector<ModelSlot> slots = {{weight("embed_tokens"), {V, H}, &Weights::embed_tokens},
                                  {weight("norm"), {H}, &Weights::norm}};
  if (!config.tie_word_embeddings) slots.push_back({weight("lm_head"), {V, H}, &Weights::lm_head});
  if (E > 0) {
    slots.push_back(
        {weight("embed_tokens_per_layer"), {Vp, L * E}, &Weights::embed_tokens_per_layer});
    slots.push_back(
        {weight("per_layer_model_projection"), {L * E, H}, &Weights::per_layer_model_projection});
    slots.push_back(
        {weight("per_layer_projection_norm"), {E}, &Weights::per_layer_projection_norm});
  }
  return slots;
}

std::vector<LayerSlot> layer_slots(const ModelConfig& config, const LayerPlan& layer) {
  Slots slots = block_slots(config, layer);
  add(slots, attention_slots(config, layer));
  add(slots, per_layer_input_slots(config));
  add(slots, config.family == Family::gemma3n ? gemma3n_slots(config) : gemma4_slots(config));
  return slots;
}

bool is_dead_name(const std::string& name, const LayerPlan& layer) {
  static const char* const dead[] = {"self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                     "self_attn.k_norm.weight", "self_attn.k_proj.bias",
                                     "self_attn.v_proj.bias"};
  return !layer.owns_keys() && std::find(std::begin(dead), std::end(dead), name) != std::end(dead);
}

std::vector<TensorSpec> tensor_specs(const ModelConfig& config,
                                     const std::vector<LayerPlan>& plan) {
  const std::int64_t H = config.hidden_size;
  std::vector<TensorSpec> specs;
  for (ModelSlot& slot : model_slots(config))
    specs.push_back({std::move(slot.name), std::move(slot.shape)});
  if (config.family == Family::gemma3n) {
    for (int s = 0; s + 1 < config.altup_num_inputs; ++s) {
      specs.push_back({altup_projection_name(s), {H, H}});
      specs.push_back({altup_unembed_projection_name(s), {H, H}});
    }
  }
  for (const LayerPlan& layer : plan)
    for (LayerSlot& slot : layer_slots(config, layer))
      specs.push_back({layer_prefix(layer.layer) + slot.name, std::move(slot.shape)});
  for (const LayerPlan& layer : plan) add_dead_specs(config, layer, specs);
  return specs;
}

}  // namespace kvconform
