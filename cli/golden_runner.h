// The float reference as what goldens are computed by (golden/golden.h asks for a runner).
#pragma once

#include "golden/golden.h"

namespace kvconform::cli {

/// `threads` share the rows of large products; they change no bit.
RunnerFactory reference_runner(int threads);

}  // namespace kvconform::cli
