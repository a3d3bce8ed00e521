// Cases from RapidCheck. A property says how to draw a model and calls; what is the same for all of
// them is here: the key that makes case i a pure function of (seed, property, i).
#pragma once

#include <functional>

#include "properties/generators/draw.h"
#include "properties/property.h"

namespace kvconform {

using DrawModel = std::function<ModelSpec(Draw&)>;
using DrawCalls = std::function<std::vector<Call>(Draw&, const ModelSpec&)>;

/// Case `index` of a property.
Case case_at(const char* property, std::uint64_t seed, std::uint64_t index,
             const DrawModel& draw_model, const DrawCalls& draw_calls);

}  // namespace kvconform
