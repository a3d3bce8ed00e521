// Kinds of subjects, available or not (see subjects.h).
#include "cli/subjects.h"

#include <fmt/format.h>

#include "reference/error.h"

namespace kvconform::cli {
namespace {

struct Kind {
  const char *prefix, *spelling, *missing;  // `missing`: why it cannot run, nullptr if it can
};

constexpr const char* kNotYet = "not available in this version";
constexpr Kind kKinds[] = {
    {"reference", "reference[:PRECISION]", nullptr}, {"cuda", "cuda[:…]", kNotYet},
    {"plugin", "plugin:FILE.so", kNotYet},           {"process", "process:COMMAND", kNotYet},
    {"transformers", "transformers", kNotYet},       {"mlx-lm", "mlx-lm", kNotYet},
};

}  // namespace

std::vector<SubjectStatus> subject_statuses() {
  std::vector<SubjectStatus> statuses;
  for (const Kind& kind : kKinds)
    statuses.push_back({kind.spelling, kind.missing == nullptr
                                           ? "can run"
                                           : fmt::format("cannot run: {}", kind.missing)});
  return statuses;
}

void require_available(const std::string& subject) {
  const std::string prefix = subject.substr(0, subject.find(':'));
  for (const Kind& kind : kKinds)
    if (prefix == kind.prefix && kind.missing != nullptr)
      throw Error("KV4006", fmt::format("the subject {} is {}", subject, kind.missing),
                  "kvconform doctor lists the subjects that can run here");
}

}  // namespace kvconform::cli
