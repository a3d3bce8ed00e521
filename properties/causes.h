// Likely causes in words, from where two computations part: patterns known from real bug reports.
#pragma once

#include <string>

#include "properties/case.h"
#include "properties/verdict.h"

namespace kvconform {

/// Empty where no pattern fits.
std::string likely_cause(const Case& test_case, const ModelConfig& config, const Difference& at);

}  // namespace kvconform
