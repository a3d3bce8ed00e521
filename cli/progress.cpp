// The progress line (see progress.h).
#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "cli/output.h"
#include "properties/books.h"
#include "reference/counted.h"

namespace kvconform::cli {
namespace {

constexpr double kSecondsBetweenPlainLines = 10;

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

std::string duration(double seconds) {
  const long long whole = std::llround(std::max(0.0, seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

ProgressLine::ProgressLine() : terminal_(is_terminal(Stream::error)) {}

std::string ProgressLine::text(const Progress& progress) {
  if (progress.step != step_) {
    step_ = progress.step;
    step_began_ = progress.seconds;
  }
  std::string line = fmt::format("[{}/{}] {} ({}) ", progress.step, progress.steps,
                                 progress.property, progress.subject);
  if (progress.planned > 0) line += fmt::format("{}/", progress.done);
  line += counted(progress.planned > 0 ? progress.planned : progress.done, "case");
  if (progress.failures > 0) line += fmt::format(", {} failed", progress.failures);
  if (progress.shrinking) line += ", shrinking";
  const double seconds = progress.seconds - step_began_;
  if (seconds > 0) line += fmt::format(", {:.0f}/s", static_cast<double>(progress.done) / seconds);
  if (progress.seconds_left >= 0) line += fmt::format(", {} left", duration(progress.seconds_left));
  return line;
}

void ProgressLine::update(const Progress& progress) {
  if (terminal_) {
    // A line that wraps could not be erased.
    write_error("\r\033[K" + text(progress).substr(0, terminal_columns() - 1));
    shown_ = true;
  } else if (progress.seconds - last_plain_line_ >= kSecondsBetweenPlainLines) {
    write_error(text(progress) + "\n");
    last_plain_line_ = progress.seconds;
  }
}

void ProgressLine::finished(const PropertyResult& result) {
  clear();
  if (!terminal_)
    write_error(fmt::format("{} ({}): {}, {}, {} compared, {}\n", result.property, result.subject,
                            to_string(result.verdict), counted(result.cases, "case"),
                            compared_of(result.counts), duration(result.seconds)));
}

void ProgressLine::say(const std::string& line) {
  clear();
  write_error(terminal_ ? line : line + "\n");
  shown_ = terminal_;
}

void ProgressLine::clear() {
  if (shown_) write_error("\r\033[K");
  shown_ = false;
}

}  // namespace kvconform::cli
