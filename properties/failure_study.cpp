// Re-running, shrinking and locating. Shrinking walks RapidCheck's tree of shrinks: the first
// simpler case that fails in the same way is taken, until none does or the time is over.
#include "properties/failure_study.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "properties/case_judge.h"
#include "properties/generators/shrinkable_case.h"
#include "properties/replay.h"
#include "reference/error.h"

namespace kvconform {
namespace {

/// Is the difference more than rounding? Shrinking drifts towards cases in which a fault shows by a
/// last bit only (one token, one weight near zero); those explain nothing to whoever reads them.
bool is_clear(const Verdict& verdict) {
  if (!verdict.first_difference) return true;
  const double expected = verdict.first_difference->expected, seen = verdict.first_difference->seen;
  const double larger = std::max(std::abs(expected), std::abs(seen));
  return !(std::abs(expected - seen) <= 1e-3 * larger);  // not a number is clear, too
}

class Shrinker {
 public:
  Shrinker(const Property& property, CaseJudge& judge, const Verdict& failure,
           const StudyLimits& limits)
      : property_(property),
        judge_(judge),
        kind_(failure.kind),
        clear_(is_clear(failure)),
        limits_(limits) {}

  Case run(const Case& failing) {
    rc::Shrinkable<Case> smallest = shrinkable_case(failing);
    while (std::optional<rc::Shrinkable<Case>> simpler = first_failing(smallest)) {
      smallest = *simpler;
      ++steps_;
      if (limits_.on_step) limits_.on_step(smallest.value(), steps_, tried_);
    }
    return smallest.value();
  }

 private:
  std::optional<rc::Shrinkable<Case>> first_failing(const rc::Shrinkable<Case>& from) {
    rc::Seq<rc::Shrinkable<Case>> candidates = from.shrinks();
    while (!over()) {
      rc::Maybe<rc::Shrinkable<Case>> candidate = candidates.next();
      if (!candidate) return std::nullopt;
      ++tried_;
      if (fails_alike(candidate->value())) return *candidate;
    }
    return std::nullopt;
  }

  bool fails_alike(const Case& test_case) {
    try {
      const Verdict verdict = judge_.judge(property_, test_case, false);
      return verdict.kind == kind_ && (!clear_ || is_clear(verdict));
    } catch (const Error&) {
      return false;  // the simplification was no valid case after all
    } catch (const SubjectUnusable&) {
      unusable_ = true;
      return false;
    }
  }

  bool over() const {
    if (unusable_) return true;
    if (limits_.stop != nullptr && limits_.stop->load()) return true;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() >=
           limits_.seconds;
  }

  const Property& property_;
  CaseJudge& judge_;
  VerdictKind kind_;
  bool clear_;  ///< the first failure was a clear one: so must the smallest be
  const StudyLimits& limits_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int steps_ = 0, tried_ = 0;
  bool unusable_ = false;  // the subject does not start any more
};

}  // namespace

namespace {

/// A subject that cannot be started any more is broken on every case.
Verdict judge_with_traces(CaseJudge& judge, const Property& property, const Case& test_case) {
  try {
    return judge.judge(property, test_case, true);
  } catch (const SubjectUnusable& e) {
    return unusable_verdict(e);
  }
}

/// Traces, and probes for causes, ask more of a subject than the run did. Where that breaks it, the
/// case is judged as it was in the run: the failure itself is what is reported.
Verdict judge_closely(CaseJudge& judge, const Property& property, const Case& test_case,
                      VerdictKind known) {
  const Verdict close = judge_with_traces(judge, property, test_case);
  if (close.kind == known || close.kind != VerdictKind::broken) return close;
  try {
    Verdict plain = judge.judge(property, test_case, false);
    if (plain.kind != known) return close;
    plain.message += "; looking closer broke the subject: " + close.message;
    return plain;
  } catch (const SubjectUnusable&) {
    return close;
  }
}

}  // namespace

FailureStudy study_failure(const Property& property, const Case& test_case, const Verdict& seen,
                           const StudyLimits& limits) {
  CaseJudge judge(test_case.subject, test_case.against, limits.subject);
  FailureStudy study{test_case, judge_closely(judge, property, test_case, seen.kind)};
  if (study.verdict.kind != seen.kind) {
    study.verdict.message = std::string("a second run of the same case was given the verdict ") +
                            to_string(study.verdict.kind) + "; the first: " + seen.message;
    study.verdict.kind = VerdictKind::flaky;
    return study;
  }
  study.smallest = Shrinker(property, judge, seen, limits).run(test_case);
  const Verdict smallest = judge_closely(judge, property, study.smallest, seen.kind);
  if (smallest.kind !=
      seen.kind) {  // a flaky subject can shrink to a case that does not fail again
    study.smallest = test_case;
    return study;
  }
  study.verdict = smallest;
  return study;
}

PropertyResult replay_case(const Case& test_case, const ReplayOptions& options) {
  const auto word = [](const std::string& given, const std::string& recorded,
                       const char* fallback) {
    return !given.empty() ? given : !recorded.empty() ? recorded : std::string(fallback);
  };
  const Property& property = find_property(test_case.property);
  Case replayed = test_case;
  replayed.subject = word(options.subject, test_case.subject, "reference");
  replayed.against = word(options.against, test_case.against, "reference:double");
  CaseJudge judge(replayed.subject, replayed.against, options.process);
  Verdict verdict = judge_with_traces(judge, property, replayed);
  for (int i = 1; i < options.repeats; ++i) {
    if (options.process.stop != nullptr && *options.process.stop) throw SubjectInterrupted();
    const Verdict again = judge_with_traces(judge, property, replayed);
    if (again.kind == verdict.kind) continue;
    verdict.message = std::string("run 1 was given the verdict ") + to_string(verdict.kind) +
                      ", a later one " + to_string(again.kind);
    verdict.kind = VerdictKind::flaky;
  }
  PropertyResult result;
  result.property = property.name();
  result.sentence = property.sentence();
  result.subject = replayed.subject;
  result.against = replayed.against;
  result.verdict = verdict.kind;
  result.counts[verdict.kind] = 1;
  result.cases = 1;
  result.seed = test_case.seed;
  result.budget_used = verdict.budget_used;
  result.message = verdict.message;
  if (is_failure(verdict.kind)) result.failure = Failure{replayed, verdict, {}, test_case.index};
  return result;
}

Case shrink_case(const Case& test_case, const ShrinkOptions& options) {
  const PropertyResult now =
      replay_case(test_case, {options.subject, options.against, 1, options.process});
  if (!now.failure) return test_case;
  const Case failing = now.failure->smallest;  // with the subjects filled in
  CaseJudge judge(failing.subject, failing.against, options.process);
  const StudyLimits limits{options.seconds, options.stop, options.on_step, options.process};
  return Shrinker(find_property(failing.property), judge, now.failure->verdict, limits)
      .run(failing);
}

}  // namespace kvconform
