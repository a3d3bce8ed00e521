// Re-running, shrinking and locating. Shrinking walks RapidCheck's tree of shrinks: the first
// simpler case that fails in the same way is taken, until none does or the time is over. Several
// are tried at a time, each on a subject of its own; that changes the time and not the case.
#include "properties/failure_study.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "properties/case_judge.h"
#include "properties/generators/shrinkable_case.h"
#include "properties/replay.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using Judges = std::vector<std::unique_ptr<CaseJudge>>;  ///< one a thread; made when first needed

std::unique_ptr<CaseJudge> judge_for(const Case& test_case, const StudyLimits& limits) {
  return std::make_unique<CaseJudge>(test_case.subject, test_case.against, limits.subject);
}

/// The first judge is there: what is wrong with the subject's name is said before anything runs.
Judges judges_for(const Case& test_case, const StudyLimits& limits) {
  Judges judges(static_cast<std::size_t>(std::max(1, limits.jobs)));
  judges[0] = judge_for(test_case, limits);
  return judges;
}

class Shrinker {
 public:
  Shrinker(const Property& property, Judges& judges, const Verdict& failure,
           const StudyLimits& limits)
      : property_(property),
        judges_(judges),
        kind_(failure.kind),
        clear_(is_clear(failure)),
        limits_(limits) {}

  Case run(const Case& failing) {
    Tree smallest = shrinkable_case(failing);
    for (std::size_t from = 0;;) {
      const std::vector<Tree> simpler = branches_of(smallest);
      const std::size_t found = first_failing(simpler, from);
      if (found == simpler.size()) return smallest.value();
      smallest = simpler[found];
      // Those before it have just been tried; they come last.
      from = found;
      ++steps_;
      if (limits_.on_step) limits_.on_step(smallest.value(), steps_, tried_);
    }
  }

 private:
  using Tree = rc::Shrinkable<Case>;

  static std::vector<Tree> branches_of(const Tree& tree) {
    std::vector<Tree> branches;
    rc::Seq<Tree> next = tree.shrinks();
    while (rc::Maybe<Tree> branch = next.next()) branches.push_back(*branch);
    return branches;
  }

  /// In the order of the tree, once around, beginning at `from`. Several are tried at a time; which
  /// is found does not depend on how many. The size of `simpler` if none fails or the time is over.
  std::size_t first_failing(const std::vector<Tree>& simpler, std::size_t from) {
    const std::size_t count = simpler.size();
    std::atomic<std::size_t> next = 0, found = count;
    const auto work = [&](std::unique_ptr<CaseJudge>& judge) {
      for (std::size_t i; !over() && (i = next++) < found;) {
        ++tried_;
        if (!fails_alike(judge, simpler[(from + i) % count].value())) continue;
        for (std::size_t best = found; i < best && !found.compare_exchange_weak(best, i);) continue;
      }
    };
    std::vector<std::thread> others;
    const std::size_t useful = std::min(judges_.size(), count);
    for (std::size_t j = 1; j < useful; ++j) others.emplace_back([&, j] { work(judges_[j]); });
    work(judges_[0]);
    for (std::thread& other : others) other.join();
    if (error_) std::rethrow_exception(error_);
    return found == count ? count : (from + found) % count;
  }

  bool fails_alike(std::unique_ptr<CaseJudge>& judge, const Case& test_case) {
    try {
      if (!judge) judge = judge_for(test_case, limits_);
      const Verdict verdict = judge->judge(property_, test_case, false);
      return verdict.kind == kind_ && (!clear_ || is_clear(verdict));
    } catch (const SubjectUnusable&) {
      ended_ = true;
    } catch (const Error&) {
      // the simplification was no valid case after all
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      ended_ = true;
    }
    return false;
  }

  bool over() const {
    if (ended_) return true;
    if (limits_.stop != nullptr && limits_.stop->load()) return true;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return seconds >= (tried_ < limits_.least_tried ? 10 : 1) * limits_.seconds;
  }

  const Property& property_;
  Judges& judges_;
  VerdictKind kind_;
  bool clear_;  ///< the first failure was a clear one: so must the smallest be
  const StudyLimits& limits_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int steps_ = 0;
  std::atomic<int> tried_ = 0;
  std::atomic<bool> ended_ = false;  // an error, or a subject that does not start any more
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

bool is_clear(const Verdict& verdict) {
  if (!verdict.first_difference) return true;
  const double expected = verdict.first_difference->expected, seen = verdict.first_difference->seen;
  const double larger = std::max(std::abs(expected), std::abs(seen));
  return !(std::abs(expected - seen) <= 1e-3 * larger);  // not a number is clear, too
}

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
    plain.message += "; looking closer broke the subject: " + in_words(close);
    return plain;
  } catch (const SubjectUnusable&) {
    return close;
  }
}

}  // namespace

FailureStudy study_failure(const Property& property, const Case& test_case, const Verdict& seen,
                           const StudyLimits& limits) {
  Judges judges = judges_for(test_case, limits);
  CaseJudge& judge = *judges[0];
  FailureStudy study{test_case, judge_closely(judge, property, test_case, seen.kind)};
  if (study.verdict.kind != seen.kind) {
    study.verdict.message = std::string("a second run of the same case was given the verdict ") +
                            to_string(study.verdict.kind) + "; the first: " + in_words(seen);
    study.verdict.request.clear();
    study.verdict.kind = VerdictKind::flaky;
    return study;
  }
  study.smallest = Shrinker(property, judges, seen, limits).run(test_case);
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
  result.message = in_words(verdict);
  if (is_failure(verdict.kind)) result.failure = Failure{replayed, verdict, {}, test_case.index};
  return result;
}

Case shrink_case(const Case& test_case, const ShrinkOptions& options) {
  const PropertyResult now =
      replay_case(test_case, {options.subject, options.against, 1, options.process});
  if (!now.failure) return test_case;
  const Case failing = now.failure->smallest;  // with the subjects filled in
  const StudyLimits limits{options.seconds, options.stop, options.on_step, options.process};
  Judges judges = judges_for(failing, limits);
  return Shrinker(find_property(failing.property), judges, now.failure->verdict, limits)
      .run(failing);
}

}  // namespace kvconform
