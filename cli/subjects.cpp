// Kinds of subjects and what they need (see subjects.h).
#include "cli/subjects.h"

#include <fmt/format.h>

#include "properties/subject_registry.h"
#include "properties/subjects/adapters.h"

namespace kvconform::cli {

std::vector<SubjectStatus> subject_statuses() {
  std::vector<SubjectStatus> statuses;
  for (const SubjectEntry& entry : known_subjects())
    statuses.push_back({entry.name, "can run: " + entry.description});
  for (const SubjectEntry& entry : adapter_subjects()) {
    const char* state = find_adapter(entry.name)->is_ready
                            ? "can run"
                            : "can run after a download, by its first check";
    statuses.push_back({entry.name, fmt::format("{}: {}", state, entry.description)});
  }
  return statuses;
}

}  // namespace kvconform::cli
