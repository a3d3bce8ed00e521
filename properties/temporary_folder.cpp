// Making, locking, recognising and removing temporary folders.
#include "properties/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>

#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRandomLetters = 6;  // of mkdtemp
constexpr const char* kOurs = "kvconform-";

fs::path temporary_root() {
  const char* given = std::getenv("TMPDIR");
  return given != nullptr && *given != '\0' ? given : "/tmp";
}

[[noreturn]] void cannot_make(const fs::path& root, int error) {
  const char* given = std::getenv("TMPDIR");
  const bool set = given != nullptr && *given != '\0';
  throw HarnessError(
      "KV2011",
      fmt::format("cannot make a temporary folder in {} ({}): {}", root.string(),
                  set ? "the value of TMPDIR" : "TMPDIR is not set", std::strerror(error)),
      "set TMPDIR to a folder that exists, is writable and has room");
}

fs::path make_folder(const std::string& name) {
  const fs::path root = temporary_root();
  std::string pattern = (root / (name + "-XXXXXX")).string();
  if (mkdtemp(pattern.data()) == nullptr) cannot_make(root, errno);
  return pattern;
}

/// The process in a name of the form kvconform-WORDS-PID-LETTERS; nothing for other names.
std::optional<pid_t> process_of(const std::string& name) {
  if (name.rfind(kOurs, 0) != 0 || name.size() < kRandomLetters + 1) return std::nullopt;
  const std::size_t end = name.size() - kRandomLetters - 1;
  const std::size_t dash = name.rfind('-', end - 1);
  if (name[end] != '-' || dash == std::string::npos) return std::nullopt;
  pid_t process = 0;
  const auto [stop, error] = std::from_chars(&name[dash + 1], &name[end], process);
  if (error != std::errc() || stop != &name[end] || process <= 0) return std::nullopt;
  return process;
}

bool is_own_folder(const fs::path& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

int open_and_lock(const fs::path& folder, int operation) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, operation | LOCK_NB) == 0) return descriptor;
  if (descriptor >= 0) close(descriptor);
  return -1;
}

/// A process of another container or machine that shares the folder is not seen by its id, but its
/// lock is. Where locks do not work, the folder stays.
bool is_abandoned(const fs::path& folder, pid_t process) {
  if (kill(process, 0) == 0 || errno != ESRCH) return false;
  const int lock = open_and_lock(folder, LOCK_EX);
  if (lock < 0) return false;
  close(lock);
  return true;
}

void remove_where(const std::function<bool(const fs::path&, pid_t)>& goes) {
  std::error_code ignored;
  fs::directory_iterator entry(temporary_root(), ignored), end;
  for (; !ignored && entry != end; entry.increment(ignored)) {
    const auto process = process_of(entry->path().filename().string());
    if (!process || !is_own_folder(entry->path()) || !goes(entry->path(), *process)) continue;
    std::error_code in_use;
    fs::remove_all(entry->path(), in_use);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& name)
    : path_(make_folder(fmt::format("{}-{}", name, getpid()))),
      lock_(open_and_lock(path_, LOCK_SH)) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a destructor has nobody to tell
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

fs::path make_kept_folder(const std::string& name) {
  return make_folder(name);
}

void remove_stale_temporary_folders() {
  remove_where(is_abandoned);
}

void remove_temporary_folders_of(pid_t process) {
  remove_where([process](const fs::path&, pid_t owner) { return owner == process; });
}

}  // namespace kvconform
