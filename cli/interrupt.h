// Ctrl-C and SIGTERM: the first asks the work to stop at the next case, so that a report is left
// behind that says what is missing; the second kills.
#pragma once

#include <atomic>

namespace kvconform::cli {

/// Handles the two signals from here to the end of the process. The flag turns true at the first.
const std::atomic<bool>& stop_on_interrupt();

}  // namespace kvconform::cli
