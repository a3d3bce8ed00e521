// Simpler models than a given one; see shrinking.h.
#pragma once

#include <vector>

#include "properties/case.h"

namespace kvconform {

/// Valid models one step simpler, whose vocabulary still holds `largest_token`. Empty for
/// checkpoints.
std::vector<ModelSpec> simpler_models(const ModelSpec& model, int largest_token);

}  // namespace kvconform
