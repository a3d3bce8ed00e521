// Other conventions of rotary position embedding that engines mistake for the model's: pairs (2i,
// 2i + 1) instead of (i, i + D/2), the base of the other layer type, no rotation at all, … Each can
// be expressed by permuted projections or another config, so that the healthy reference computes
// what such an engine would. A subject that differs from the model and agrees with one of these is
// told so by name.
#pragma once

#include <string>

#include "properties/history.h"
#include "properties/property.h"

namespace kvconform {

/// Ways into the attention that engines write twice.
enum class AttentionPath { score, several_tokens, one_token };

struct RotaryFinding {
  std::string convention;  ///< "pairs (2i, 2i + 1) in full layers"; empty: none explains it
  std::string where;       ///< "everywhere", "in calls of one token", …
  Difference worst;        ///< what was explained
};

/// Holds each path of a transcript that is not the model's against the conventions.
RotaryFinding explain_by_rotary_convention(const Case& test_case, Judgement& judgement,
                                           const Transcript& seen);

}  // namespace kvconform
