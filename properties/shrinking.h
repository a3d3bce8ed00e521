// Simpler cases than a given one, in the domain's own terms: fewer layers under a valid plan, less
// sharing, smaller sizes, options off, shorter prompts, fewer and merged calls.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/case.h"

namespace kvconform {

/// Every one-step simplification, the boldest first. Each is a valid case (its config parses, its
/// plan is valid, its calls make sense), so that a shrunk failure cannot be an invalid input.
std::vector<Case> simpler_cases(const Case& test_case);

/// How large a case is: what the report says of the shrunk one.
struct CaseExtent {
  int layers = 0, prompt = 0, calls = 0;  ///< layers; tokens given in all calls; calls
};
CaseExtent extent_of(const Case& test_case);

/// The model of a case without its weights.
ModelConfig config_of(const ModelSpec& model);

}  // namespace kvconform
