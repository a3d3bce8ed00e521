// A program on the other end of three pipes: run by `/bin/sh -c` in a process group of its own,
// which is ended with it, whatever happens to us.
//
// Nothing here can block for ever or eat memory: writing only queues, all traffic moves in one
// poll() loop with a deadline, standard error is read along and only its end is kept. A child that
// never reads, never writes, babbles, closes a pipe or leaves a grandchild on it costs one deadline
// at most.
//
//   ChildProcess child("python3 engine.py");
//   child.write("hello\n");
//   std::string line = child.read_line(1 << 20, deadline);  // ChildFailure says what went wrong
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace kvconform {

/// What a child did instead of answering, as the rest of a sentence: "exited with status 1".
class ChildFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The deadline passed.
class ChildTimeout : public ChildFailure {
 public:
  using ChildFailure::ChildFailure;
  std::string arrived;                       ///< of the answer until then: a line without its end
  std::size_t payload = 0, payload_due = 0;  ///< bytes of it, where it was the payload that lacked
};

/// A word of a command for /bin/sh, whatever characters it has.
std::string quoted_for_shell(const std::string& word);

/// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_;
};

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// `stop`: set by Ctrl-C; reading then gives up after a second (SubjectInterrupted). HarnessError
  /// KV2110 where the system has no process or pipe left.
  explicit ChildProcess(const std::string& command, const std::atomic<bool>* stop = nullptr);
  ~ChildProcess();  ///< kills the whole group and waits for what it must
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Queues bytes for standard input; they move while somebody reads.
  void write(const std::string& bytes);

  /// The next line without its newline. A line of more than `most` bytes is a failure.
  std::string read_line(std::size_t most, Clock::time_point deadline);
  /// Exactly `count` bytes. Memory grows with what arrives, not with what is asked for.
  std::string read_bytes(std::size_t count, Clock::time_point deadline);

  std::size_t unread() const { return output_.size() - taken_; }
  std::string unread_bytes() const { return output_.substr(taken_); }
  /// Has it written more than was read? Waits for it no longer than `patience`.
  bool says_more(std::chrono::milliseconds patience);
  bool all_written() const { return input_.size() == sent_; }

  /// The end of what it wrote to standard error, a few KB.
  const std::string& last_words();

  /// Closes its standard input and gives it time to end by itself.
  void wait_for_exit(std::chrono::milliseconds patience);

 private:
  void start(const std::string& command);
  void start_guard(int leash);
  void pump(Clock::time_point deadline);
  void check_stop();
  void send();
  bool receive();  ///< true if standard output brought something
  void receive_errors();
  bool has_exited();
  [[noreturn]] void report_end();
  std::string exit_words();

  pid_t pid_ = -1, guard_ = -1;
  Descriptor in_, out_, err_;
  Descriptor leash_;  ///< the guard kills the group when this end closes, also by our death
  std::string input_, output_;  ///< to standard input; from standard output
  std::size_t sent_ = 0, taken_ = 0, scanned_ = 0;
  std::string errors_;
  const std::atomic<bool>* stop_;
  Clock::time_point stop_seen_{};
};

}  // namespace kvconform
