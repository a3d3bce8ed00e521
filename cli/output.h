// Standard output and standard error of the program.
//
// Results go to standard output, progress and errors to standard error. A reader that went away
// (`| head`) is no error: the rest is dropped and the exit code stays that of the work. A full disk
// is one: `finish_output` throws HarnessError KV4091. Colours appear only on a terminal and never
// with NO_COLOR set.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace kvconform::cli {

void write_out(std::string_view text);
void write_error(std::string_view text);

template <typename... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_out(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Flushes standard output and tells whether all of it arrived.
void finish_output();

enum class Stream { out, error };
bool is_terminal(Stream stream);

enum class Colour { red, green, yellow, bold };
/// The text in colour where the stream shows colours, else the text itself.
std::string coloured(std::string_view text, Colour colour, Stream stream);

}  // namespace kvconform::cli
