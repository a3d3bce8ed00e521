// Fields of a config.json that do not change what a text model computes at inference: an
// allow-list, each name with its reason. Beside them, fields that are harmless at one value only
// (no quantization, causal attention, the usual activation): any other value is refused by name. To
// accept another field, add a line to the table in harmless_fields.cpp, with the reason.
#pragma once

#include "reference/config_fields.h"

namespace kvconform {

/// Notes every harmless field that is present.
void ignore_harmless_fields(Fields& fields);

/// Fields of the outer level of a multimodal configuration: other towers, repeated text fields.
void ignore_outer_fields(Fields& outer, const nlohmann::json& text_config);

/// Throws KV1010 for quantization, foreign activations and other values that change the maths.
/// `bidirectional`: attention is not causal on purpose.
void refuse_unsupported_values(Fields& fields, bool bidirectional);

}  // namespace kvconform
