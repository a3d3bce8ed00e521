// A model's configuration: what a Hugging Face `config.json` of the Gemma 3n and Gemma 4 text
// models says, with every default applied and every list given one entry a layer. After
// `parse_model_config` nothing is left to derive but the sharing plan (layer_plan.h).
//
// Strict on purpose: a field that changes the maths and is not supported is refused by name; a
// field that has no effect here is kept in `ignored`, so that `kvconform plan` can list it.
//
// Source: transformers 5.24.0, configuration_gemma3n.py and configuration_gemma4.py (facts only).
//
//   ModelConfig config = parse_model_config(nlohmann::json::parse(text));
//
// Letters used for shapes everywhere in this project:
//   T new tokens of a call      P tokens already cached     H hidden_size          L num_layers
//   D head size of a layer      nH query heads              nK key/value heads     I feed-forward
//   width E per-layer-input width     N AltUp streams             V, Vp vocabularies     W sliding
//   window R LAuReL rank               X experts                   Im expert width
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvconform {

enum class Family { gemma3n, gemma4 };
enum class AttentionType { sliding, full };

/// Rotary position embedding of one attention type.
struct Rope {
  enum class Kind { plain, linear, proportional };
  Kind kind = Kind::plain;
  double theta = 10000.0;
  double factor = 1.0;                 ///< linear, proportional: every frequency is divided by it
  double partial_rotary_factor = 1.0;  ///< proportional: share of the head that rotates
  bool operator==(const Rope&) const = default;
};

struct ModelConfig {
  Family family = Family::gemma3n;

  int vocab_size = 0;                  ///< V
  int vocab_size_per_layer_input = 0;  ///< Vp, rows of the per-layer embedding table
  int hidden_size = 0;                 ///< H
  int num_layers = 0;                  ///< L
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = true;
  bool attention_bias = false;                    ///< biases on q, k, v and o projections
  std::optional<double> final_logit_softcapping;  ///< c in c·tanh(z/c)
  int hidden_size_per_layer_input = 0;            ///< E; 0: no per-layer inputs

  // Attention, one entry a layer.
  int num_attention_heads = 0;             ///< nH, the same in all layers
  std::vector<AttentionType> layer_types;  ///< [L]
  std::vector<int> head_dims;              ///< [L] D, even
  std::vector<int> key_value_heads;        ///< [L] nK, divides nH
  int sliding_window = 0;                  ///< W: positions a sliding query sees, itself included
  Rope sliding_rope, full_rope;
  bool attention_k_eq_v = false;   ///< Gemma 4: full layers take values from k_proj
  bool bidirectional_all = false;  ///< Gemma 4: every token sees every other; no cache makes sense

  // Who reads whose keys and values: at most one of the two is in force (the map, where given).
  int num_kv_shared_layers = 0;                    ///< S, the last S layers are consumers
  std::optional<std::vector<int>> kv_sharing_map;  ///< [L] owner of each layer

  // Feed-forward.
  std::vector<int> intermediate_sizes;      ///< [L] I before doubling
  bool use_double_wide_mlp = false;         ///< Gemma 4: consumers have width 2·I
  std::vector<double> activation_sparsity;  ///< [L] in [0, 1); Gemma 3n, 0 elsewhere

  // Gemma 4 experts (beside the dense feed-forward, in every layer).
  bool enable_moe_block = false;
  int num_experts = 0;  ///< X
  int top_k_experts = 0;
  int moe_intermediate_size = 0;  ///< Im

  // Gemma 3n.
  int altup_num_inputs = 1;  ///< N
  int altup_active_idx = 0;
  bool altup_correct_scale = true;
  int laurel_rank = 0;  ///< R

  /// Fields that were read and have no effect on text inference, each with the reason.
  struct Ignored {
    std::string field, reason;
  };
  std::vector<Ignored> ignored;
};

/// Reads a text config or a multimodal one (`text_config` inside). Throws Error KV10xx.
ModelConfig parse_model_config(const nlohmann::json& config);

/// Reads and parses the text of a `config.json`; `origin` is named in errors.
nlohmann::json parse_config_text(const std::string& text, const std::string& origin);

const char* to_string(Family family);       ///< "gemma3n_text", "gemma4_text"
const char* to_string(AttentionType type);  ///< "sliding_attention", "full_attention"

}  // namespace kvconform
