// Which subjects of the command line this program can make, and in what words it refuses the
// others. Making them is the registry's work (properties/subject_registry.h).
#pragma once

#include <string>
#include <vector>

namespace kvconform::cli {

struct SubjectStatus {
  std::string subject, text;  ///< "process:COMMAND", "cannot run: not available in this version"
};

/// Every kind of subject that the command line knows of, for `doctor`.
std::vector<SubjectStatus> subject_statuses();

/// Throws Error KV4006 for a kind that this version does not have, in words that say so; leaves the
/// spelling of the others to the registry.
void require_available(const std::string& subject);

}  // namespace kvconform::cli
