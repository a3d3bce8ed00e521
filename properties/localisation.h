// Where a subject parts from the implementation it is held against, for properties that found a
// failure by comparing something else.
#pragma once

#include <optional>

#include "properties/property.h"

namespace kvconform {

/// The first place on the calls of a case. Nothing where traces are not asked for, or do not part.
std::optional<Difference> locate(const Case& test_case, Judgement& judgement);

/// The same calls on a model that the property made of the case's.
std::optional<Difference> locate_in(const ModelSource& model, const Case& test_case,
                                    Judgement& judgement);

}  // namespace kvconform
