// The kinds of numerics that goldens are approved for, and the subject that each is recorded by.
// To add one (bfloat16 with a chip's rounding, say): a line in the table, then record and approve.
#pragma once

#include <string>
#include <vector>

#include "golden/computation.h"

namespace kvconform {

/// All of them: the reference, and the CUDA engine as emulated threads predict it.
std::vector<Numerics> golden_numerics();

/// The kind that the subject of this name has to reproduce, computed by that subject: "cuda:gpu"
/// computes cuda-float32. Error KV3014 for subjects that no golden is about.
Numerics numerics_of_subject(const std::string& subject);
bool has_goldens(const std::string& subject);

}  // namespace kvconform
