// Rotary position embeddings in a configuration: `rope_parameters` with one entry an attention
// type, and for Gemma 3n the older keys rope_theta, rope_local_base_freq and rope_scaling. Refuses
// every rotary type that the model does not compute, and two spellings that contradict each other.
#pragma once

#include "reference/config_fields.h"
#include "reference/model_config.h"

namespace kvconform {

void read_gemma3n_ropes(Fields& fields, ModelConfig& config);
void read_gemma4_ropes(Fields& fields, ModelConfig& config);

}  // namespace kvconform
