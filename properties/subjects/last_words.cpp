// Lines, turned round.
#include "properties/subjects/last_words.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "properties/subjects/protocol_messages.h"

namespace kvconform {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* kTraceback = "Traceback (most recent call last):";
constexpr std::size_t kMessageLines = 5;  // an exception's message; more is what was said later

std::string stripped(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string::npos ? "" : line.substr(first);
}

/// Without empty ones, and without the marks that Python puts below code.
Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line.resize(line.find_last_not_of(" \t\r") + 1);
    if (line.find_first_not_of(" \t~^") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

std::string joined(Lines::const_iterator from, Lines::const_iterator to, const char* between) {
  std::string text;
  for (; from != to; ++from) text += (text.empty() ? "" : between) + stripped(*from);
  return text;
}

/// As many of the last lines as fit, in their order.
std::string nearest_lines(Lines::const_iterator from, Lines::const_iterator to, std::size_t most) {
  std::size_t bytes = 0;
  auto first = to;
  while (first != from && bytes + (first - 1)->size() + 3 <= most) bytes += (--first)->size() + 3;
  if (first == to) return "";
  return (first == from ? "" : "… ") + joined(first, to, " | ");
}

/// One after the other, the innermost first: `File "engine.py", line 7, in extend: y = x + z`.
std::string frames_inside_out(Lines::const_iterator from, Lines::const_iterator to) {
  Lines frames;
  for (; from != to; ++from) {
    const std::string line = stripped(*from);
    const bool begins = frames.empty() || line.rfind("File ", 0) == 0;
    if (begins) frames.push_back(line);
    if (!begins) frames.back() += ": " + line;
  }
  std::reverse(frames.begin(), frames.end());
  return joined(frames.begin(), frames.end(), "; called in ");
}

struct Told {
  std::string first;            ///< what to read
  Lines::const_iterator until;  ///< lines before this one are still to be told
};

Told last_line(const Lines& lines) {
  return {stripped(lines.back()), lines.end() - 1};
}

Told last_traceback(const Lines& lines) {
  const auto found = std::find(lines.rbegin(), lines.rend(), kTraceback);
  if (found == lines.rend()) return last_line(lines);
  const auto frames = found.base();
  const auto exception =
      std::find_if(frames, lines.end(), [](const std::string& line) { return line[0] != ' '; });
  const auto after = static_cast<std::size_t>(lines.end() - exception);
  if (after == 0 || after > kMessageLines) return last_line(lines);  // cut off, or long ago
  const std::string where = frames_inside_out(frames, exception);
  return {joined(exception, lines.end(), " | ") + (where.empty() ? "" : "; in " + where),
          frames - 1};
}

}  // namespace

std::string last_words_first(const std::string& text, std::size_t most) {
  const Lines lines = lines_of(text);
  if (lines.empty()) return "";
  const Told told = last_traceback(lines);
  const std::size_t room = most - std::min(most, told.first.size());
  const std::string before = nearest_lines(lines.begin(), told.until, room);
  return printable(told.first, most) +
         (before.empty() ? "" : "; before that: " + printable(before, before.size()));
}

std::string message_in_words(const std::string& message, std::size_t most) {
  const bool traceback = message.find(kTraceback) != std::string::npos;
  return traceback ? last_words_first(message, most) : printable(message, most);
}

}  // namespace kvconform
