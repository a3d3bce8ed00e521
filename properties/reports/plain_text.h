// Text from elsewhere (a subject's standard error, names typed by people) made fit for files that
// promise UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace kvconform {

/// Well-formed UTF-8 that XML 1.0 allows too: U+FFFD for bytes that are no character and for the
/// two non-characters U+FFFE and U+FFFF, "?" for control characters except tab and line end.
std::string plain_text(std::string_view text);

/// Is the text UTF-8 as it stands? Case files, being JSON, can hold nothing else.
bool is_utf8(std::string_view text);

}  // namespace kvconform
