// Where the failing cases of a run are written: in its report, or else in one folder for all of
// them that stays until the user removes it; whoever prints a failure names its file.
#pragma once

#include <filesystem>
#include <string>

#include "properties/runner.h"

namespace kvconform {

class FailureFiles {
 public:
  explicit FailureFiles(const RunOptions& options) : options_(options) {}

  /// Keeps a case under the property, its subject and `which` one it is. Nothing, and an empty
  /// path, where nobody wants it: without a report, when a property ends at its first failure.
  std::filesystem::path keep(const Case& test_case, const std::string& which);

 private:
  const RunOptions& options_;
  std::filesystem::path folder_;  ///< made for the first failure
};

}  // namespace kvconform
