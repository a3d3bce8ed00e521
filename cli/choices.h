// Validator for options that take one of a few words. CLI11's own would also take the number of an
// enumerator, and its message has no remedy.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kvconform::cli {

/// One of these words, exactly. Throws Error KV4003 naming option, value, words and the nearest.
CLI::Validator one_of(const std::string& option, std::vector<std::string> words);

}  // namespace kvconform::cli
