// Cases with their shrinks: RapidCheck's lazy tree, its branches the domain's own simplifications.
// Slow to compile: include it only where shrinking happens.
#pragma once

#include <rapidcheck.h>

#include "properties/property.h"

namespace kvconform {

/// Drawn cases and those read from a file shrink alike.
rc::Shrinkable<Case> shrinkable_case(const Case& test_case);

}  // namespace kvconform
