// Gemma 3n: AltUp streams, LAuReL, activation sparsity, a feed-forward width for each layer.
// Defaults are those of the E4B text model, as in transformers.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reference/error.h"
#include "reference/family_config.h"
#include "reference/rope_config.h"

namespace kvconform {
namespace {

using nlohmann::json;

void read_gemma3n_heads(Fields& fields, ModelConfig& config) {
  if (config.hidden_size % config.num_attention_heads != 0) {
    throw Error("KV1015",
                fmt::format("{} is {}, not divisible by {} heads", fields.full_name("hidden_size"),
                            config.hidden_size, config.num_attention_heads),
                "give a multiple of num_attention_heads (transformers insists on it for Gemma 3n)");
  }
  config.head_dims.assign(config.num_layers, fields.integer("head_dim", 256, size_range));
  config.key_value_heads.assign(config.num_layers,
                                fields.integer("num_key_value_heads", 2, head_count_range));
}

void read_widths(Fields& fields, ModelConfig& config) {
  const json* given = fields.find("intermediate_size");
  if (given != nullptr && given->is_array()) {
    config.intermediate_sizes = fields.integers("intermediate_size", config.num_layers, size_range);
  } else {
    config.intermediate_sizes.assign(config.num_layers,
                                     fields.integer("intermediate_size", 16384, size_range));
  }
}

void read_sparsity(Fields& fields, ModelConfig& config) {
  if (fields.has_value("activation_sparsity_pattern")) {
    config.activation_sparsity =
        fields.numbers("activation_sparsity_pattern", config.num_layers, {0.0, 1.0, false, true});
    return;
  }
  config.activation_sparsity.assign(config.num_layers, 0.0);
  if (config.num_layers <= 10) return;
  std::fill_n(config.activation_sparsity.begin(), 10, 0.95);
}

void read_altup(Fields& fields, ModelConfig& config) {
  config.altup_num_inputs = fields.integer("altup_num_inputs", 4, {1, 1024});
  config.altup_active_idx = fields.integer("altup_active_idx", 0, {0, config.altup_num_inputs - 1});
  config.altup_correct_scale = fields.boolean("altup_correct_scale", true);
  config.laurel_rank = fields.integer("laurel_rank", 64, size_range);
}

}  // namespace

void read_gemma3n(Fields& fields, ModelConfig& config) {
  static constexpr double softcap = 30.0;
  read_common(fields, config, {262400, 262144, 2048, 35, 8, 15, &softcap}, 5);
  read_window(fields, config);
  read_gemma3n_heads(fields, config);
  read_widths(fields, config);
  read_sparsity(fields, config);
  read_altup(fields, config);
  read_gemma3n_ropes(fields, config);
  fields.ignore("altup_coef_clip", "training only");
  fields.ignore("altup_lr_multiplier", "training only");
  fields.ignore("use_bidirectional_attention", "Gemma 3n text is always causal");
}

}  // namespace kvconform
