// What the readers of the two families share. Each family reads its own fields with its own
// defaults into a ModelConfig; everything that both have in common stands in model_config.cpp.
#pragma once

#include <string>

#include "reference/config_fields.h"
#include "reference/model_config.h"

namespace kvconform {

// Largest values that are accepted. Far above any published model, and small enough that products
// of two of them fit 64 bits and no list of per-layer values exhausts the memory.
constexpr IntegerRange layer_count_range{1, 10000};
constexpr IntegerRange size_range{1, 1 << 24};
constexpr IntegerRange size_or_none_range{0, 1 << 24};
constexpr IntegerRange head_count_range{1, 1 << 16};

/// The whole text config of one family, after model_type.
void read_gemma3n(Fields& fields, ModelConfig& config);
void read_gemma4(Fields& fields, ModelConfig& config);

/// Defaults that differ between the families.
struct SizeDefaults {
  int vocab_size, vocab_size_per_layer_input, hidden_size, num_layers;
  int num_attention_heads, num_kv_shared_layers;
  const double* softcap;  ///< nullptr: none
};

/// Fields that both families spell and mean alike. Layer types: the list where given, else full on
/// every `period`-th layer.
void read_common(Fields& fields, ModelConfig& config, const SizeDefaults& defaults, int period);

/// The sliding window; after the layer types are final.
void read_window(Fields& fields, ModelConfig& config);

}  // namespace kvconform
