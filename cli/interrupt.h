// Ctrl-C, SIGTERM and SIGHUP (a terminal that closes). Commands with a report stop at the next case
// at the first signal, so that a report is left behind that says what is missing; a second one of
// the same kind kills. Commands with nothing to report end at once and leave nothing half-written.
#pragma once

#include <atomic>
#include <functional>

namespace kvconform::cli {

/// Handles the signals from here to the end of the process. The flag turns true at the first. A
/// SIGHUP that was ignored (nohup) stays so.
const std::atomic<bool>& stop_on_interrupt();

/// From here on a signal ends the process with exit code 130, after `clean_up` (which runs on a
/// thread of its own, beside whatever is at work) and after the temporary folders of this process
/// are removed. Call it once, before there are other threads.
void end_on_interrupt(std::function<void()> clean_up = {});

}  // namespace kvconform::cli
