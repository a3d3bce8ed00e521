// Likely causes in words, from where two computations part: patterns known from real bug reports.
#pragma once

#include <string>

#include "properties/case.h"
#include "properties/verdict.h"

namespace kvconform {

/// Empty where no pattern fits.
std::string likely_cause(const Case& test_case, const ModelConfig& config, const Difference& at);

/// Which of a subject's two paths, with a cache and without, gives what the model gives.
enum class RightPath { unknown, cached, uncached };

/// What it means that the other path parts from it here; empty where no pattern fits.
std::string cause_by_path(const ModelConfig& config, const Difference& at, RightPath right);

}  // namespace kvconform
