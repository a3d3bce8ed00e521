// Cases as RapidCheck generators. A property says how to draw a model and calls; what is the same for
// all of them is here: the key that makes case i a pure function of (seed, property, i), and shrinking
// in the domain's own terms, attached to each case as its RapidCheck shrinks.
#pragma once

#include <rapidcheck.h>

#include <functional>

#include "properties/generators/draw.h"
#include "properties/property.h"

namespace kvconform {

using DrawCalls = std::function<std::vector<Call>(Draw&, const ModelSpec&)>;
using DrawModel = std::function<ModelSpec(Draw&)>;

/// A generator of cases that shrink by `simpler_cases`.
rc::Gen<Case> case_gen(DrawModel draw_model, DrawCalls draw_calls);

/// Case `index` of a property.
Case case_at(const char* property, std::uint64_t seed, std::uint64_t index,
             const rc::Gen<Case>& gen);

/// A case with its shrinks, also for one that was read from a file.
rc::Shrinkable<Case> shrinkable_case(const Case& test_case);

}  // namespace kvconform
