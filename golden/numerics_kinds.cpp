// Kinds of numerics by the names of subjects.
#include "golden/numerics_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "properties/subject_registry.h"
#include "reference/error.h"

namespace kvconform {
namespace {

struct NumericsKind {
  const char* name;
  std::vector<std::string> subjects;  ///< the first is the one that records
};

const std::vector<NumericsKind>& kinds() {
  static const std::vector<NumericsKind> all = {
      {"reference-float32", {"reference"}},
      {"cuda-float32", {"cuda:emulated", "cuda:emulated=float32", "cuda:gpu", "cuda"}}};
  return all;
}

Numerics numerics(const NumericsKind& kind, const std::string& subject) {
  return {kind.name, [subject] { return make_subject(subject); }};
}

}  // namespace

std::vector<Numerics> golden_numerics() {
  std::vector<Numerics> all;
  for (const NumericsKind& kind : kinds()) all.push_back(numerics(kind, kind.subjects.front()));
  return all;
}

bool has_goldens(const std::string& subject) {
  return std::any_of(kinds().begin(), kinds().end(), [&](const NumericsKind& kind) {
    const auto& subjects = kind.subjects;
    return std::find(subjects.begin(), subjects.end(), subject) != subjects.end();
  });
}

Numerics numerics_of_subject(const std::string& subject) {
  std::vector<std::string> known;
  for (const NumericsKind& kind : kinds()) {
    const auto& subjects = kind.subjects;
    if (std::find(subjects.begin(), subjects.end(), subject) != subjects.end()) {
      return numerics(kind, subject);
    }
    known.insert(known.end(), subjects.begin(), subjects.end());
  }
  throw Error("KV3014", fmt::format("there are no goldens for the subject {}", subject),
              fmt::format("use one of: {}", fmt::join(known, ", ")));
}

}  // namespace kvconform
