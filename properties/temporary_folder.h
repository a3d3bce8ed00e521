// A folder under TMPDIR that goes away with its owner, unless it is kept because it holds a
// failure.
//
// Its name carries the process id, as in kvconform-model-1234-aBcDeF, and the owner holds a lock on
// it: what a killed process leaves behind is recognised and removed by the next one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace kvconform {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name);  ///< "kvconform-…"; HarnessError KV2011
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// A new folder under TMPDIR for the user to keep: nobody removes it. HarnessError KV2011.
std::filesystem::path make_kept_folder(const std::string& name);

/// Removes the temporary folders of this user whose process has ended. Never throws: a TMPDIR that
/// cannot be used is said when it is needed.
void remove_stale_temporary_folders();

/// Removes those of one process: a process that is about to end without unwinding gives its own id.
void remove_temporary_folders_of(pid_t process);

}  // namespace kvconform
