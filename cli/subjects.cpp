// Kinds of subjects, available or not (see subjects.h).
#include "cli/subjects.h"

#include <fmt/format.h>

#include "properties/subject_registry.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

// Kinds that the command line reserves and the registry does not have.
struct Kind {
  const char *prefix, *spelling;
};
constexpr Kind kMissing[] = {
    {"plugin", "plugin:FILE.so"}, {"transformers", "transformers"}, {"mlx-lm", "mlx-lm"}};
constexpr const char* kNotYet = "not available in this version";

}  // namespace

std::vector<SubjectStatus> subject_statuses() {
  std::vector<SubjectStatus> statuses;
  for (const SubjectEntry& entry : known_subjects())
    statuses.push_back({entry.name, "can run: " + entry.description});
  for (const Kind& kind : kMissing)
    statuses.push_back({kind.spelling, fmt::format("cannot run: {}", kNotYet)});
  return statuses;
}

void require_available(const std::string& subject) {
  const std::string prefix = subject.substr(0, subject.find(':'));
  for (const Kind& kind : kMissing)
    if (prefix == kind.prefix)
      throw Error("KV4006", fmt::format("the subject {} is {}", subject, kNotYet),
                  "kvconform doctor lists the subjects that can run here");
}

}  // namespace kvconform::cli
