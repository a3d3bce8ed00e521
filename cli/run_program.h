// Runs the built program as a person would and keeps what came back; for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvconform::cli {

struct Outcome {
  int exit_code = -1;  ///< −N where signal N ended it
  std::string out, error;
};

/// Starts build/kvconform with these words and waits for it. With `interrupt_after_line` it gets a
/// SIGINT once a line with that text has appeared on standard error.
Outcome run_program(const std::vector<std::string>& words,
                    const std::string& interrupt_after_line = "");

/// The same; a gtest failure with all that was printed unless it ends with exit code 0.
Outcome succeed(const std::vector<std::string>& words);

/// The first line with `what` in it, or "".
std::string line_with(const std::string& text, const std::string& what);

/// The same through a shell, for redirections; `{}` in the line stands for the program.
int run_shell(std::string line);

/// A new folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvconform::cli
