// Which subjects the command line knows of, and whether they can run here. Making them is the
// registry's work (properties/subject_registry.h).
#pragma once

#include <string>
#include <vector>

namespace kvconform::cli {

struct SubjectStatus {
  std::string subject, text;  ///< "process:COMMAND", "can run: …"
};

/// Every kind of subject, for `doctor`.
std::vector<SubjectStatus> subject_statuses();

}  // namespace kvconform::cli
