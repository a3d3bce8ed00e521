// The witness's opinion on the logits of a recipe: how far they are from an implementation that
// shares no arithmetic with any subject. Where a golden's logits changed, it tells another rounding
// from another result.
#pragma once

#include "golden/computation.h"
#include "reference/checkpoint.h"

namespace kvconform {

/// The worst row's largest difference as a share of its largest logit; infinite for NaN.
double distance_from_witness(const Recipe& recipe, const Checkpoint& checkpoint,
                             const CallLogits& logits);

}  // namespace kvconform
