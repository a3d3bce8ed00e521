// Temporary file beside the target, then rename: readers see the old file or the whole new one.
#include "reference/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "reference/error.h"

namespace kvconform {

namespace {

// Process id and a counter: unique among writers on this machine, and a leftover of a killed run
// says whose it was.
std::filesystem::path temporary_name(const std::filesystem::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() /
         fmt::format(".{}.{}.{}.partial", target.filename().string(), getpid(), counter++);
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path target)
    : target_(std::move(target)), temporary_(temporary_name(target_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create", errno);
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void PartialFile::write_at(std::uint64_t offset, const void* bytes, std::size_t size) {
  const char* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::pwrite(descriptor_, from, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write", written < 0 ? errno : ENOSPC);
    from += written;
    offset += static_cast<std::uint64_t>(written);
    size -= static_cast<std::size_t>(written);
  }
}

void PartialFile::commit() {
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("finish", errno);  // network file systems report a full disk only here
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
}

void PartialFile::fail(const char* action, int error) {
  const char* remedy = error == ENOSPC || error == EDQUOT || error == EFBIG
                           ? "free some space or choose a folder on another disk"
                           : "choose a folder that exists and that you may write to";
  throw HarnessError(
      "KV1220", fmt::format("cannot {} {}: {}", action, target_.string(), std::strerror(error)),
      remedy);
}

}  // namespace kvconform
