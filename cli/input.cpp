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

constexpr std::size_t kLargest = std::size_t{64} << 20;  // also ends /dev/zero

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
    if (text.append(piece, n).size() > kLargest)
      throw Error("KV4007", fmt::format("{} is larger than 64 MiB", file.string()),
                  "name a text file; weights are given as a folder");
  if (std::ferror(stream.get())) unreadable(file);  // a folder opens, and fails here
  return text;
}

}  // namespace kvconform::cli
