// Buffered writing with the failures of each stream remembered (see output.h).
#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "reference/error.h"

namespace kvconform::cli {
namespace {

// The first failure of standard output; the only state of the process's one standard output.
int& output_failure() {
  static int failure = 0;
  return failure;
}

void note_failure() {
  if (output_failure() == 0) output_failure() = errno == 0 ? EIO : errno;
}

const char* escape_sequence(Colour colour) {
  switch (colour) {
    case Colour::red:
      return "\033[31m";
    case Colour::green:
      return "\033[32m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::bold:
      return "\033[1m";
  }
  return "";
}

}  // namespace

void write_out(std::string_view text) {
  errno = 0;
  if (output_failure() == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    note_failure();
}

void write_error(std::string_view text) {
  std::fflush(stdout);  // in the order in which things happened, also where both go to one file
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void finish_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) note_failure();
  static bool told = false;  // whoever asks again has been told already
  if (output_failure() == 0 || output_failure() == EPIPE || told) return;
  told = true;
  throw HarnessError(
      "KV4091",
      fmt::format("standard output cannot be written: {}", std::strerror(output_failure())),
      "free some space, or send the output elsewhere");
}

bool is_terminal(Stream stream) {
  return isatty(stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

std::string coloured(std::string_view text, Colour colour, Stream stream) {
  // https://no-color.org: present and not empty, whatever the value.
  const char* no_colour = std::getenv("NO_COLOR");
  if ((no_colour != nullptr && *no_colour != '\0') || !is_terminal(stream))
    return std::string(text);
  return fmt::format("{}{}\033[0m", escape_sequence(colour), text);
}

}  // namespace kvconform::cli
