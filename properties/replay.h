// One recorded case again: does it still fail, the same way each time, and how small can it get?
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "properties/case.h"
#include "properties/runner.h"
#include "properties/subject_registry.h"
#include "properties/verdict.h"

namespace kvconform {

/// Which implementation a replay judges: empty words mean what the case file says, or failing that
/// "reference" and "reference:double".
struct ReplayOptions {
  std::string subject, against;
  int repeats = 2;              ///< runs; different verdicts make it flaky
  SubjectOptions process = {};  ///< for subjects in other processes
};

/// Judges a recorded case, with traces. The result reads like that of a property with one case
/// (verdict `flaky` where repeats differ), so that failure_text and exit codes apply to it.
PropertyResult replay_case(const Case& test_case, const ReplayOptions& options);

struct ShrinkOptions {
  std::string subject, against;
  double seconds = 60;
  SubjectOptions process = {};  ///< for subjects in other processes
  std::function<void(const Case& smallest, int steps, int tried)> on_step;
  const std::atomic<bool>* stop = nullptr;
};

/// The smallest case found that fails as `test_case` does (differs stays differs, broken stays
/// broken). Returns the case itself if it does not fail.
Case shrink_case(const Case& test_case, const ShrinkOptions& options);

}  // namespace kvconform
