// Starting the program with pipes on its streams (see run_program.h).
#include "cli/run_program.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace kvconform::cli {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    read = ends[0];
    write = ends[1];
  }
};

pid_t start(const std::vector<std::string>& words, const Pipe& out, const Pipe& error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error.write, STDERR_FILENO);
  for (int end : {out.read, out.write, error.read, error.write})
    posix_spawn_file_actions_addclose(&actions, end);
  std::vector<std::string> all = {KVCONFORM_PROGRAM};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int failure =
      posix_spawn(&child, KVCONFORM_PROGRAM, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out.write);
  close(error.write);
  if (failure != 0) throw std::runtime_error("cannot start " KVCONFORM_PROGRAM);
  return child;
}

// Appends what is there; false at the end of the stream.
bool take(int stream, std::string& text) {
  std::array<char, 65536> piece;
  const ssize_t count = read(stream, piece.data(), piece.size());
  if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  return count > 0;
}

int ended(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

Outcome run_program(const std::vector<std::string>& words,
                    const std::string& interrupt_after_line) {
  const Pipe out, error;
  const pid_t child = start(words, out, error);
  Outcome outcome;
  bool interrupt = !interrupt_after_line.empty();
  std::array<pollfd, 2> streams = {pollfd{out.read, POLLIN, 0}, pollfd{error.read, POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    poll(streams.data(), streams.size(), -1);
    for (pollfd& stream : streams)
      if (stream.fd >= 0 && stream.revents != 0 &&
          !take(stream.fd, stream.fd == out.read ? outcome.out : outcome.error))
        stream.fd = -1;
    if (interrupt && outcome.error.find(interrupt_after_line) != std::string::npos) {
      kill(child, SIGINT);
      interrupt = false;
    }
  }
  close(out.read);
  close(error.read);
  outcome.exit_code = ended(child);
  return outcome;
}

Outcome succeed(const std::vector<std::string>& words) {
  const Outcome outcome = run_program(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
  return outcome;
}

std::string line_with(const std::string& text, const std::string& what) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(what) != std::string::npos) return line;
  }
  return "";
}

int run_shell(std::string line) {
  for (std::size_t at; (at = line.find("{}")) != std::string::npos;)
    line.replace(at, 2, "\"" KVCONFORM_PROGRAM "\"");
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvconform-cli-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kvconform::cli
