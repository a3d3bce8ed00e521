// Other conventions of rotary position embedding that engines mistake for the model's: pairs (2i,
// 2i + 1) instead of (i, i + D/2), the base of the other layer type, no rotation at all, … Each can
// be expressed by permuted projections or another config, so that the healthy reference computes
// what such an engine would. A subject that differs from the model and agrees with one of these is
// told so by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "properties/history.h"
#include "properties/property.h"

namespace kvconform {

/// Their names, in the words of a finding.
std::vector<std::string> rotary_conventions();

/// The model whose healthy computation is that of an engine with the convention; null where the
/// model has no room for it.
std::unique_ptr<ModelSource> with_rotary_convention(const ModelSource& source,
                                                    const std::string& convention);

/// Ways into the attention that engines write twice.
enum class AttentionPath { score, several_tokens, one_token };

struct RotaryFinding {
  std::string convention;  ///< "pairs (2i, 2i + 1) in full layers"; empty: none explains it
  std::string where;       ///< "everywhere", "in calls of one token", …
  Difference worst;        ///< what was explained
};

/// A prompt through every way given, each for itself: a path that rotates in its own way is then
/// alone with its keys. Session 0 takes it at once, session 1 token by token.
std::vector<Call> calls_through(const std::vector<AttentionPath>& paths,
                                const std::vector<int>& prompt);

/// Runs the longest prompt of a case through every path that the subject has: the convention and
/// where it is followed, in words; empty where no convention explains what comes out.
std::string rotary_cause(const Case& test_case, Judgement& judgement);

/// Holds each path of a transcript that is not the model's against the conventions.
RotaryFinding explain_by_rotary_convention(const Case& test_case, Judgement& judgement,
                                           const Transcript& seen);

}  // namespace kvconform
