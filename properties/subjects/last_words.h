// What a program said before it died, told so that the line worth reading comes first: the last
// one, and of a Python traceback the exception, then where it was raised, then who called. Programs
// write it the other way round, and a report shows the beginning.
#pragma once

#include <cstddef>
#include <string>

namespace kvconform {

/// Standard error of a program, in one line of about `most` bytes, printable; "" where nothing was
/// said. "ValueError: no such shape; in File "engine.py", line 7, in extend: …; before that: …"
std::string last_words_first(const std::string& text, std::size_t most);

/// The message of an error that a program sent. It has an order of its own, but for a traceback.
std::string message_in_words(const std::string& message, std::size_t most);

}  // namespace kvconform
