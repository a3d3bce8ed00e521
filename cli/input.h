// Reading of files that a user names on the command line.
#pragma once

#include <filesystem>
#include <string>

namespace kvconform::cli {

/// The whole file. Throws Error KV4007, with the system's reason.
std::string read_text(const std::filesystem::path& file);

}  // namespace kvconform::cli
