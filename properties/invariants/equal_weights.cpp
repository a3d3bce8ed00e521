// Another model that computes the same: copies instead of references, parts that add nothing,
// factors of two moved from one place to another (exact in binary arithmetic). Sources:
// model-spec.md, sections 2, 3 and 5.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "properties/invariants/equal_configuration_rules.h"
#include "reference/model_config.h"

namespace kvconform {
namespace {

using nlohmann::json;

EqualPair twins(const RuleInput& in, const json& config) {
  ModelDraft draft = ModelDraft::drawn(config, in.recipe);
  return {draft, draft, 1, std::nullopt};
}

/// Takes over a tensor of the left side where the right one has it too.
void copy(EqualPair& pair, const std::string& from, const std::string& to) {
  if (pair.left.has(from)) pair.right.set(to, pair.left.get(from));
}

void for_each_layer(const RuleInput& in, const std::function<void(int)>& body) {
  for (int i = 0; i < in.parsed.num_layers; ++i) body(i);
}

EqualPair untied_copy(const RuleInput& in) {
  json left = in.config;
  left["tie_word_embeddings"] = true;
  json right = left;
  right["tie_word_embeddings"] = false;
  EqualPair pair = drawn_pair(in, left, right);
  copy(pair, "embed_tokens.weight", "lm_head.weight");
  return pair;
}

EqualPair stored_wider(const RuleInput& in) {
  WeightsRecipe narrow = in.recipe;
  narrow.dtype = in.choice % 2 == 0 ? Dtype::bf16 : Dtype::f16;
  ModelDraft left = ModelDraft::drawn(in.config, narrow);
  ModelDraft right = left;
  std::vector<std::string> names;
  for (const auto& [name, view] : left.tensors().tensors) names.push_back(name);
  for (const std::string& stored : names) {
    const std::string name = stored == "lm_head.weight" ? stored : stored.substr(6);  // "model."
    right.set(name, left.get(name));
  }
  return {std::move(left), std::move(right), 1, std::nullopt};
}

EqualPair biases_of_zero(const RuleInput& in) {
  json left = in.config;
  left["attention_bias"] = true;
  json right = left;
  right["attention_bias"] = false;
  EqualPair pair = drawn_pair(in, left, right);
  for_each_layer(in, [&](int i) {
    for (const char* bias : {"self_attn.q_proj.bias", "self_attn.k_proj.bias",
                             "self_attn.v_proj.bias", "self_attn.o_proj.bias"}) {
      pair.left.scale(layer_tensor(i, bias), 0);
    }
  });
  return pair;
}

bool room_for_smaller_table(const RuleInput& in) {
  return gemma3n_only(in) && in.parsed.vocab_size > 4;
}

/// Rows of the per-layer table past Vp are never read: such ids take row 0.
EqualPair copies_of_row_zero(const RuleInput& in) {
  const int vocab = in.parsed.vocab_size, smaller = vocab / 2;
  json left = in.config;
  left["vocab_size_per_layer_input"] = vocab;
  EqualPair pair = twins(in, left);
  std::vector<int> rows(vocab, 0);
  std::iota(rows.begin(), rows.begin() + smaller, 0);
  pair.left.take_rows("embed_tokens_per_layer.weight", rows);
  rows.resize(smaller);
  pair.right.take_rows("embed_tokens_per_layer.weight", rows);
  pair.right.config()["vocab_size_per_layer_input"] = smaller;
  return pair;
}

bool gemma4_with_per_layer_inputs(const RuleInput& in) {
  return gemma4_only(in) && in.parsed.hidden_size_per_layer_input > 0;
}

EqualPair per_layer_inputs_of_zero(const RuleInput& in) {
  json right = in.config;
  right["hidden_size_per_layer_input"] = 0;
  EqualPair pair = drawn_pair(in, in.config, right);
  for_each_layer(
      in, [&](int i) { pair.left.scale(layer_tensor(i, "post_per_layer_input_norm.weight"), 0); });
  return pair;
}

EqualPair half_of_a_double_width(const RuleInput& in) {
  json left = in.config;
  left["use_double_wide_mlp"] = true;
  EqualPair pair = twins(in, left);
  pair.right.config()["use_double_wide_mlp"] = false;
  for (const LayerPlan& layer : pair.left.plan()) {
    if (layer.owns_keys()) continue;
    const int half = layer.intermediate_size / 2, width = 2 * half;
    const std::string down = layer_tensor(layer.layer, "mlp.down_proj.weight");
    pair.left.change(down, [&](std::int64_t i, float x) { return i % width < half ? x : 0; });
    std::vector<int> first(half);
    std::iota(first.begin(), first.end(), 0);
    pair.right.take_columns(down, first);
    pair.right.take_rows(layer_tensor(layer.layer, "mlp.gate_proj.weight"), first);
    pair.right.take_rows(layer_tensor(layer.layer, "mlp.up_proj.weight"), first);
  }
  return pair;
}

/// Rows of `heads` heads of a projection, each `copies` times in place.
std::vector<int> repeated_heads(int heads, int dim, int copies) {
  std::vector<int> rows;
  for (int head = 0; head < heads; ++head) {
    for (int copy = 0; copy < copies; ++copy) {
      for (int d = 0; d < dim; ++d) rows.push_back(head * dim + d);
    }
  }
  return rows;
}

bool grouped_heads(const RuleInput& in) {
  return std::any_of(in.parsed.key_value_heads.begin(), in.parsed.key_value_heads.end(),
                     [&](int heads) { return heads < in.parsed.num_attention_heads; });
}

EqualPair a_copy_for_each_query_head(const RuleInput& in) {
  EqualPair pair = twins(in, in.config);
  const int queries = in.parsed.num_attention_heads;
  pair.right.config()["num_key_value_heads"] = queries;
  if (in.config.contains("num_global_key_value_heads")) {
    pair.right.config()["num_global_key_value_heads"] = queries;
  }
  for (const LayerPlan& layer : pair.left.plan()) {
    const std::vector<int> rows =
        repeated_heads(layer.key_value_heads, layer.head_dim, queries / layer.key_value_heads);
    for (const char* name : {"self_attn.k_proj.weight", "self_attn.v_proj.weight",
                             "self_attn.k_proj.bias", "self_attn.v_proj.bias"}) {
      pair.right.take_rows(layer_tensor(layer.layer, name), rows);
    }
  }
  return pair;
}

void with_experts(json& config, int experts, int chosen) {
  config["enable_moe_block"] = true;
  config["num_experts"] = experts;
  config["top_k_experts"] = chosen;
  config["moe_intermediate_size"] = config.value("moe_intermediate_size", 5);
}

EqualPair identical_experts(const RuleInput& in) {
  json left = in.config, right = in.config;
  with_experts(left, 4, 1 + static_cast<int>(in.choice % 3));
  with_experts(right, 1, 1);
  EqualPair pair = drawn_pair(in, left, right);
  for_each_layer(in, [&](int i) {
    for (const char* name : {"experts.gate_up_proj", "experts.down_proj"}) {
      pair.left.take_rows(layer_tensor(i, name), {0, 0, 0, 0});
      pair.right.set(layer_tensor(i, name), pair.left.get(layer_tensor(i, name)));
      pair.right.take_rows(layer_tensor(i, name), {0});
    }
    const auto one = [](std::int64_t, float) { return 1.0F; };
    pair.left.change(layer_tensor(i, "router.per_expert_scale"), one);
    pair.right.change(layer_tensor(i, "router.per_expert_scale"), one);
  });
  return pair;
}

EqualPair scale_in_the_expert(const RuleInput& in) {
  json config = in.config;
  with_experts(config, 3, 2);
  EqualPair pair = twins(in, config);
  for_each_layer(in, [&](int i) {
    pair.left.scale(layer_tensor(i, "router.per_expert_scale"), 2);
    pair.right.scale(layer_tensor(i, "experts.down_proj"), 2);
  });
  return pair;
}

EqualPair values_from_a_copied_projection(const RuleInput& in) {
  json left = in.config;
  left["attention_k_eq_v"] = true;
  left.erase("num_global_key_value_heads");  // it holds only together with attention_k_eq_v
  json right = left;
  right["attention_k_eq_v"] = false;
  EqualPair pair = drawn_pair(in, left, right);
  for (const LayerPlan& layer : pair.left.plan()) {
    if (!layer.values_from_keys || !layer.owns_keys()) continue;
    copy(pair, layer_tensor(layer.layer, "self_attn.k_proj.weight"),
         layer_tensor(layer.layer, "self_attn.v_proj.weight"));
    copy(pair, layer_tensor(layer.layer, "self_attn.k_proj.bias"),
         layer_tensor(layer.layer, "self_attn.v_proj.bias"));
  }
  return pair;
}

EqualPair output_scale_of_one(const RuleInput& in) {
  json left = in.config;
  left["altup_correct_scale"] = true;
  EqualPair pair = twins(in, left);
  for_each_layer(in, [&](int i) {
    pair.left.change(layer_tensor(i, "altup.correct_output_scale"),
                     [](std::int64_t, float) { return 1.0F; });
  });
  pair.right.config()["altup_correct_scale"] = false;
  return pair;
}

EqualPair factor_between_query_and_key(const RuleInput& in) {
  EqualPair pair = twins(in, in.config);
  for_each_layer(in, [&](int i) {
    pair.right.scale(layer_tensor(i, "self_attn.q_norm.weight"), 2);
    pair.right.scale(layer_tensor(i, "self_attn.k_norm.weight"), 0.5F);
  });
  return pair;
}

EqualPair factor_between_up_and_down(const RuleInput& in) {
  EqualPair pair = twins(in, in.config);
  for_each_layer(in, [&](int i) {
    pair.right.scale(layer_tensor(i, "mlp.up_proj.weight"), 2);
    pair.right.scale(layer_tensor(i, "mlp.down_proj.weight"), 0.5F);
  });
  return pair;
}

EqualPair doubled_head(const RuleInput& in) {
  json config = in.config;
  config["tie_word_embeddings"] = false;
  EqualPair pair = twins(in, config);
  pair.right.scale("lm_head.weight", 2);
  if (in.parsed.final_logit_softcapping) {
    pair.right.config()["final_logit_softcapping"] = 2 * *in.parsed.final_logit_softcapping;
  }
  pair.scale = 2;
  return pair;
}

/// The old layer of each new one, −1 for the first, which does nothing.
std::string moved_name(const std::string& name, int layers) {
  for (int i = 0; i < layers; ++i) {
    const std::string prefix = layer_tensor(i, "");
    if (name.rfind(prefix, 0) == 0) return layer_tensor(i + 1, name.c_str() + prefix.size());
  }
  return name;
}

json with_a_layer_in_front(const RuleInput& in) {
  json config = in.config;
  config["num_hidden_layers"] = in.parsed.num_layers + 1;
  const char* type = in.choice % 2 == 0 ? "sliding_attention" : "full_attention";
  json types = json::array({type});
  for (const json& old : in.config["layer_types"]) types.push_back(old);
  config["layer_types"] = types;
  if (!in.config.contains("kv_sharing_map")) return config;
  json map = json::array({0});
  for (const json& owner : in.config["kv_sharing_map"]) map.push_back(owner.get<int>() + 1);
  config["kv_sharing_map"] = map;
  return config;
}

/// Its post-norms have weight 0, its scalar is 1: what it adds to the stream is 0.
EqualPair a_layer_that_does_nothing(const RuleInput& in) {
  EqualPair pair = drawn_pair(in, in.config, with_a_layer_in_front(in));
  std::vector<std::string> names;
  for (const auto& [name, view] : pair.left.tensors().tensors) names.push_back(name);
  const int layers = in.parsed.num_layers, width = in.parsed.hidden_size_per_layer_input;
  for (const std::string& stored : names) {
    const std::string name = stored == "lm_head.weight" ? stored : stored.substr(6);  // "model."
    pair.right.set(moved_name(name, layers), pair.left.get(name));
  }
  for (const char* norm : {"post_attention_layernorm.weight", "post_feedforward_layernorm.weight",
                           "post_per_layer_input_norm.weight"}) {
    pair.right.scale(layer_tensor(0, norm), 0);
  }
  pair.right.change(layer_tensor(0, "layer_scalar"), [](std::int64_t, float) { return 1.0F; });
  // Its own columns of the per-layer tables: those of the old first layer, which nobody hears.
  std::vector<int> twice_the_first(width);
  std::iota(twice_the_first.begin(), twice_the_first.end(), 0);
  for (int i = 0; i < layers * width; ++i) twice_the_first.push_back(i);
  pair.right.take_columns("embed_tokens_per_layer.weight", twice_the_first);
  pair.right.take_rows("per_layer_model_projection.weight", twice_the_first);
  return pair;
}

}  // namespace

const std::vector<EqualityRule>& weight_rules() {
  static const std::vector<EqualityRule> rules = {
      {"a tied head is an untied copy of the embedding", true, true, any_model, untied_copy},
      {"weights stored wider, with the same values, are the same", true, true, any_model,
       stored_wider},
      {"attention biases of zero are none", false, true, any_model, biases_of_zero},
      {"a per-layer table whose end repeats row 0 is a smaller table", true, true,
       room_for_smaller_table, copies_of_row_zero},
      {"per-layer inputs whose norm is 0 are none", false, true, gemma4_with_per_layer_inputs,
       per_layer_inputs_of_zero},
      {"a double width whose second half is unused is a single one", false, true, gemma4_only,
       half_of_a_double_width},
      {"key/value heads repeated for each query head are the same heads", false, true,
       grouped_heads, a_copy_for_each_query_head},
      {"identical experts are one expert", false, true, gemma4_only, identical_experts},
      {"an expert's scale of 2 is a doubled down projection", false, true, gemma4_only,
       scale_in_the_expert},
      {"values from keys are values from a copied projection", false, true, gemma4_only,
       values_from_a_copied_projection},
      {"an output scale of 1 is none", false, true, gemma3n_only, output_scale_of_one},
      {"a factor moved from the key norm to the query norm changes nothing", false, true, any_model,
       factor_between_query_and_key},
      {"a factor moved from the down to the up projection changes nothing", false, true, any_model,
       factor_between_up_and_down},
      {"a doubled head under a doubled soft cap doubles the logits", false, true, any_model,
       doubled_head},
      {"a first layer that adds nothing changes nothing", false, false, gemma4_only,
       a_layer_that_does_nothing}};
  return rules;
}

}  // namespace kvconform
