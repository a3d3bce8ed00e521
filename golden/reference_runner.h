// The float32 reference as a GoldenRunner: what goldens are recorded from.
#pragma once

#include "golden/golden.h"

namespace kvconform {

/// One row, one cache, one thread.
RunnerFactory reference_runner();

}  // namespace kvconform
