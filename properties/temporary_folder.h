// A folder under TMPDIR that goes away with its owner, unless it is kept because it holds a
// failure.
#pragma once

#include <filesystem>
#include <string>

namespace kvconform {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name);  ///< HarnessError KV2011
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace kvconform
