// What is done with a failing case: is it flaky, how small can it get, where does it part?
#pragma once

#include <atomic>
#include <functional>

#include "properties/property.h"
#include "properties/subject_registry.h"

namespace kvconform {

struct StudyLimits {
  double seconds = 10;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Case& smallest, int steps, int tried)> on_step = {};
  SubjectOptions subject = {};
  /// Shrinking tries so many cases also where they take longer than that, though not ten times as
  /// long: on a busy machine a case is as small as on an idle one.
  int least_tried = 0;
  int jobs = 1;  ///< cases that shrinking tries at a time, each on a subject of its own
};

/// Is the difference more than rounding? Failures that show by a last bit only (one token, one
/// weight near zero), and shrinking drifts towards them, explain nothing to whoever reads them.
bool is_clear(const Verdict& verdict);

struct FailureStudy {
  Case smallest;
  Verdict verdict;  ///< of the smallest case, with traces; `flaky` if a second run did not fail
};

/// `seen` is the verdict the case was given in the run.
FailureStudy study_failure(const Property& property, const Case& test_case, const Verdict& seen,
                           const StudyLimits& limits);

}  // namespace kvconform
