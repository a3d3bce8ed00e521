// fork, exec, poll.
//
// Two children are forked: the program, leader of a new process group, and a guard in the same
// group that does nothing but read from a pipe whose other end only we hold. When we die, also by
// SIGKILL, the guard reads the end of that pipe and kills the group. (PR_SET_PDEATHSIG would reach
// the shell alone, not what it started, and fires when the starting thread ends.)
#include "properties/subjects/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "properties/subject.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kErrorsKept = 4096;
constexpr milliseconds kSlice(50);          // between looks at what no descriptor announces
constexpr milliseconds kGraceOfStop(1000);  // for the request under way after Ctrl-C
constexpr milliseconds kGraceOfEnd(1000);   // between the end of standard output and the exit

[[noreturn]] void cannot_start(const char* what) {
  throw HarnessError("KV2110",
                     fmt::format("cannot start a subject: {}: {}", what, std::strerror(errno)),
                     "check the limits on processes and open files (ulimit -u, ulimit -n)");
}

struct Pipe {
  Descriptor read, write;
};

/// Both ends above standard error, so that dup2 in the child is never from a number to itself
/// (which would leave close-on-exec set).
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start("pipe");
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  for (Descriptor* end : {&pipe.read, &pipe.write}) {
    if (end->get() > STDERR_FILENO) continue;
    const int moved = fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0) cannot_start("fcntl");
    *end = Descriptor(moved);
  }
  return pipe;
}

void set_nonblocking(const Descriptor& fd) {
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

/// In the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const char* command, int in, int out, int err) {
  setpgid(0, 0);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  _exit(127);
}

/// In the guard: holds the leash and nothing else, not even the harness's standard streams.
[[noreturn]] void keep_guard(pid_t group, int leash) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  setpgid(0, group);
  dup2(leash, 0);
  if (close_range(1, ~0U, 0) != 0) {  // kernels before 5.9
    for (int fd = 1; fd < 65536; ++fd) close(fd);
  }
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(0, &byte, 1);
  } while (got > 0 || (got < 0 && errno == EINTR));
  kill(-group, SIGKILL);
  _exit(0);
}

/// Keeps SIGPIPE from this thread while it writes, and takes back the one it caused.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec at_once{};
    if (sigismember(&before_, SIGPIPE) == 0) {
      while (sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return fmt::format("signal {} (SIG{})", number, name == nullptr ? "?" : name);
}

std::string status_words(int status) {
  std::string words = fmt::format("exited with status {}", status);
  if (status == 126) words += " (the shell cannot execute the command)";
  if (status == 127) words += " (the shell does not find the command)";
  if (status > 128 && status < 160) words += ": in a shell's words, " + signal_name(status - 128);
  return words;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.fd_;
    other.fd_ = -1;
  }
  return *this;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string quoted_for_shell(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

ChildProcess::ChildProcess(const std::string& command, const std::atomic<bool>* stop)
    : stop_(stop) {
  start(command);
}

void ChildProcess::start(const std::string& command) {
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe(), leash = make_pipe();
  pid_ = fork();
  if (pid_ < 0) cannot_start("fork");
  if (pid_ == 0) become(command.c_str(), in.read.get(), out.write.get(), err.write.get());
  setpgid(pid_, pid_);  // both sides do it: whoever comes first, the group is there from here on
  in_ = std::move(in.write);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  leash_ = std::move(leash.write);
  for (const Descriptor* fd : {&in_, &out_, &err_}) set_nonblocking(*fd);
  guard_ = fork();
  if (guard_ == 0) keep_guard(pid_, leash.read.get());
}

ChildProcess::~ChildProcess() {
  // The leader is not waited for before this: while it is a zombie nobody else can get its number.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  leash_.close();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (guard_ > 0) {
    kill(guard_, SIGKILL);
    while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void ChildProcess::write(const std::string& bytes) {
  if (all_written()) input_.clear(), sent_ = 0;
  if (in_.is_open()) input_ += bytes;
}

std::string ChildProcess::read_line(std::size_t most, Clock::time_point deadline) {
  for (;;) {
    const std::size_t end = output_.find('\n', std::max(taken_, scanned_));
    if (end != std::string::npos && end - taken_ <= most) {
      std::string line = output_.substr(taken_, end - taken_);
      taken_ = end + 1;
      return line;
    }
    if (unread() > most) {
      throw ChildFailure(fmt::format("sent a line of more than {} bytes", most));
    }
    scanned_ = output_.size();
    try {
      pump(deadline);
    } catch (ChildTimeout& late) {
      late.arrived = unread_bytes();
      throw;
    }
  }
}

std::string ChildProcess::read_bytes(std::size_t count, Clock::time_point deadline) {
  try {
    while (unread() < count) pump(deadline);
  } catch (ChildTimeout& late) {
    late.payload = unread();
    late.payload_due = count;
    throw;
  }
  std::string bytes = output_.substr(taken_, count);
  taken_ += count;
  return bytes;
}

bool ChildProcess::says_more(milliseconds patience) {
  if (unread() > 0 || !out_.is_open()) return unread() > 0;
  pollfd fd{out_.get(), POLLIN, 0};
  if (poll(&fd, 1, static_cast<int>(patience.count())) > 0) receive();
  return unread() > 0;
}

void ChildProcess::pump(Clock::time_point deadline) {
  check_stop();
  if (!out_.is_open()) report_end();
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  if (left.count() <= 0) throw ChildTimeout("gave no complete answer in time");
  std::array<pollfd, 3> fds = {pollfd{all_written() ? -1 : in_.get(), POLLOUT, 0},
                               pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
  const int ready = poll(fds.data(), fds.size(), static_cast<int>(std::min(left, kSlice).count()));
  if (fds[2].revents != 0) receive_errors();
  if (fds[0].revents != 0) send();
  if (fds[1].revents != 0) receive();
  // A grandchild may hold the pipes open after the program itself has ended.
  if (ready == 0 && has_exited() && !receive()) report_end();
}

void ChildProcess::check_stop() {
  if (stop_ == nullptr || !stop_->load()) return;
  if (stop_seen_ == Clock::time_point{}) stop_seen_ = Clock::now();
  if (Clock::now() - stop_seen_ > kGraceOfStop) throw SubjectInterrupted();
}

void ChildProcess::send() {
  const WithoutSigpipe guard;
  const ssize_t done = ::write(in_.get(), input_.data() + sent_, input_.size() - sent_);
  if (done > 0) sent_ += static_cast<std::size_t>(done);
  if (done >= 0 || errno == EAGAIN || errno == EINTR) return;
  in_.close();  // it reads no more; whether that matters shows in its answer
  sent_ = input_.size();
}

bool ChildProcess::receive() {
  if (taken_ > 0) {
    output_.erase(0, taken_);
    scanned_ -= std::min(scanned_, taken_);
    taken_ = 0;
  }
  std::array<char, 65536> bytes;
  const ssize_t got = read(out_.get(), bytes.data(), bytes.size());
  if (got > 0) output_.append(bytes.data(), static_cast<std::size_t>(got));
  if (got == 0) out_.close();
  return got > 0;
}

void ChildProcess::receive_errors() {
  std::array<char, 65536> bytes;
  const ssize_t got = read(err_.get(), bytes.data(), bytes.size());
  if (got == 0) err_.close();
  if (got <= 0) return;
  errors_.append(bytes.data(), static_cast<std::size_t>(got));
  if (errors_.size() > kErrorsKept) errors_.erase(0, errors_.size() - kErrorsKept);
}

const std::string& ChildProcess::last_words() {
  for (int i = 0; i < 16 && err_.is_open(); ++i) {  // a full pipe once over, not a flood for ever
    pollfd fd{err_.get(), POLLIN, 0};
    if (poll(&fd, 1, 0) <= 0) break;
    receive_errors();
  }
  return errors_;
}

bool ChildProcess::has_exited() {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

void ChildProcess::report_end() {
  for (const auto end = Clock::now() + kGraceOfEnd; !has_exited() && Clock::now() < end;) {
    poll(nullptr, 0, 5);
  }
  throw ChildFailure(exit_words() + (unread() > 0 ? " in the middle of a message" : ""));
}

std::string ChildProcess::exit_words() {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return "closed its standard output and goes on running";
  }
  return info.si_code == CLD_EXITED ? status_words(info.si_status)
                                    : "was ended by " + signal_name(info.si_status);
}

void ChildProcess::wait_for_exit(milliseconds patience) {
  in_.close();
  for (const auto end = Clock::now() + patience; !has_exited() && Clock::now() < end;) {
    poll(nullptr, 0, 2);
  }
}

}  // namespace kvconform
