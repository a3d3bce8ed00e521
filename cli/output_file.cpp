// Checking paths before anything is computed (see output_file.h).
#include "cli/output_file.h"

#include <fmt/format.h>

#include "reference/error.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& option, const std::string& given,
                         const std::string& why, const std::string& remedy) {
  throw Error("KV4014", fmt::format("{} \"{}\" {}", option, given, why), remedy);
}

}  // namespace

fs::path output_file(const std::string& given, const std::string& option, const fs::path& input) {
  if (given.empty()) refuse(option, given, "is empty", "name a file");
  std::error_code error;
  const fs::path path = fs::weakly_canonical(given, error);
  if (error) refuse(option, given, "cannot be resolved: " + error.message(), "name another file");
  if (!fs::is_directory(path.parent_path(), error))
    refuse(option, given, "is in a folder that does not exist", "make the folder first");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    refuse(option, given, "exists and is no regular file", "name a new file or one to replace");
  const fs::path source = fs::weakly_canonical(input, error);
  const bool within =
      fs::is_directory(source, error) ? path.parent_path() == source : path == source;
  if (within)
    refuse(option, given, "would be written over what is read, or beside it",
           "name a file outside " + input.string());
  return path;
}

}  // namespace kvconform::cli
