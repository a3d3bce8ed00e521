// The witness: both model families once more, so that a mistake would have to be made twice.
//
// It computes what reference/model-spec.md says for a whole sequence at once: matrices with a row
// for each token, in double, on Eigen. It has no cache, takes no increments and shares nothing with
// the model but configuration, sharing plan and weights. It is written to be read beside the
// specification and only for small models: every matrix is widened to double where it is used. The
// C library's exp, tanh, sin and cos are good enough here, so its bits may differ between machines;
// compare its results with a tolerance.
//
//   Logits logits = witness_logits(*Checkpoint::open("golden/oracle/gemma4-base"), {2, 17, 5});
#pragma once

#include <vector>

#include "reference/checkpoint.h"
#include "reference/trace.h"

namespace kvconform {

/// Logits of every position. With `trace`, appends the arrays named in trace.h in the order of
/// computation. Throws Error KV1450 for a token outside the vocabulary (Gemma 4: or outside the
/// per-layer vocabulary).
Logits witness_logits(const Checkpoint& checkpoint, const std::vector<int>& tokens,
                      Trace* trace = nullptr);

}  // namespace kvconform
