// Signal handling (see interrupt.h).
#include "cli/interrupt.h"

#include <csignal>

namespace kvconform::cli {
namespace {

// A signal handler can reach nothing but static memory; signals belong to the process as a whole.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not wait for a lock");

void request_stop(int) {
  stop_requested = true;
}

}  // namespace

const std::atomic<bool>& stop_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  sigemptyset(&action.sa_mask);
  // RESETHAND: the second signal meets the default action. RESTART: no read or write fails for it.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return stop_requested;
}

}  // namespace kvconform::cli
