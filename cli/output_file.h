// Where a command may write a file that a user names.
#pragma once

#include <filesystem>
#include <string>

namespace kvconform::cli {

/// The path to write to, symbolic links resolved. A regular file may be replaced. Throws Error
/// KV4014 for an empty path, a folder that does not exist, anything that is no regular file (a
/// device, a pipe: the writer would put a file in its place), and a file of `input`, the folder or
/// file that is read.
std::filesystem::path output_file(const std::string& given, const std::string& option,
                                  const std::filesystem::path& input);

}  // namespace kvconform::cli
