// Signal handling (see interrupt.h).
#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "cli/command.h"
#include "properties/temporary_folder.h"

namespace kvconform::cli {
namespace {

// A signal handler can reach nothing but static memory; signals belong to the process as a whole.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not wait for a lock");

void request_stop(int) {
  constexpr char kSaid[] =
      "\nkvconform: interrupted; finishing the case under way (once more: ends at once)\n";
  const int before = errno;
  if (!stop_requested.exchange(true) && write(STDERR_FILENO, kSaid, sizeof kSaid - 1) < 0)
    errno = before;  // nobody is there to be told
  errno = before;
}

bool is_ignored(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

const std::atomic<bool>& stop_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  sigemptyset(&action.sa_mask);
  // RESETHAND: the second signal meets the default action. RESTART: no read or write fails for it.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  const sigset_t handled = handled_signals();
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    if (sigismember(&handled, signal) == 1) sigaction(signal, &action, nullptr);
  return stop_requested;
}

void end_on_interrupt(std::function<void()> clean_up) {
  const sigset_t handled = handled_signals();
  pthread_sigmask(SIG_BLOCK, &handled, nullptr);  // threads made from here on inherit the mask
  std::thread([handled, clean_up = std::move(clean_up)] {
    int signal = 0;
    while (sigwait(&handled, &signal) != 0) {
    }
    if (clean_up) clean_up();
    remove_temporary_folders_of(getpid());
    _exit(static_cast<int>(ExitCode::interrupted));
  }).detach();
}

}  // namespace kvconform::cli
