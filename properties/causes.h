// Likely causes in words, from where two computations part: patterns known from real bug reports.
#pragma once

#include <string>

#include "properties/case.h"
#include "properties/two_ways.h"
#include "properties/verdict.h"

namespace kvconform {

/// Empty where no pattern fits.
std::string likely_cause(const Case& test_case, const ModelConfig& config, const Difference& at);

/// What it means that one of a subject's two paths, with a cache (`called`) and without, parts from
/// the other here, and which is right; empty where no pattern fits.
std::string cause_by_path(const ModelConfig& config, const Difference& at, RightWay right);

}  // namespace kvconform
