// Reading of named files (see input.h).
#include "cli/input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "reference/error.h"

namespace kvconform::cli {
namespace {

[[noreturn]] void unreadable(const std::filesystem::path& file) {
  throw Error("KV4007", fmt::format("{} cannot be read: {}", file.string(), std::strerror(errno)),
              "check that the path exists and may be read");
}

}  // namespace

std::string read_text(const std::filesystem::path& file) {
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(file.c_str(), "rb"), std::fclose);
  if (!stream) unreadable(file);
  std::string text;
  char piece[65536];
  for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, stream.get())) > 0;)
    text.append(piece, n);
  if (std::ferror(stream.get())) unreadable(file);  // a folder opens, and fails here
  return text;
}

}  // namespace kvconform::cli
