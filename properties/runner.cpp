// Working through properties × subjects with a few threads. Records are kept by index and joined at
// the end, so that the number of threads changes nothing.
#include "properties/runner.h"

#include <algorithm>
#include <chrono>

#include "properties/books.h"
#include "properties/case_judge.h"
#include "properties/environment.h"
#include "properties/pair_result.h"
#include "properties/reports/report.h"
#include "properties/reports/resume.h"
#include "properties/subject_registry.h"
#include "properties/subjects/adapters.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<const Property*> chosen_properties(const RunOptions& options) {
  std::vector<const Property*> chosen;
  if (!options.generated) return chosen;
  for (const std::string& name : options.properties) chosen.push_back(&find_property(name));
  if (!chosen.empty()) return chosen;
  for (const auto& property : all_properties()) chosen.push_back(property.get());
  return chosen;
}

Asked asked_of(const RunOptions& options) {
  Asked asked{options.subjects, options.against, options.properties, {}, 0, 0};
  asked.properties.insert(asked.properties.end(), options.stored.begin(), options.stored.end());
  for (const auto& model : options.models) {
    std::error_code unresolved;
    const auto path = std::filesystem::weakly_canonical(model, unresolved);
    asked.models.push_back((unresolved ? model : path).string());
  }
  asked.seconds = options.seconds;
  asked.timeout = options.timeout;
  asked.known = options.known;
  return asked;
}

/// The whole run: pairs one after the other, books and reports.
class Run {
 public:
  explicit Run(const RunOptions& options)
      : options_(options), properties_(chosen_properties(options)) {
    require_valid(options_);
    summary_.asked = asked_of(options_);
    summary_.commit = options_.commit;
    summary_.seed = options_.seed;
    summary_.size = options_.size;
    summary_.shard = options_.shard;
    summary_.shards = options_.shards;
    summary_.cases_per_property = planned_cases();
    summary_.environment = describe_environment();
    summary_.coverage_judged =
        summary_.asked.properties.empty() && options_.models.empty() && options_.shards == 1;
    if (!options_.report.empty()) open_folder();
  }

  /// The report carries the exit code also where an error ends the run.
  RunSummary run() {
    try {
      return run_pairs();
    } catch (const Error& e) {
      summary_.ended_with = dynamic_cast<const HarnessError*>(&e) != nullptr ? 5 : 2;
      try {
        write(false);
      } catch (const HarnessError&) {
        // The first error is the one to tell.
      }
      throw;
    }
  }

 private:
  RunSummary run_pairs() {
    const CaseFolder folder(options_.report);
    const int steps = static_cast<int>(options_.subjects.size() * properties_.size());
    for (const std::string& subject : options_.subjects) {
      const auto subject_begin = Clock::now();
      judges_.clear();
      judges_.resize(static_cast<std::size_t>(jobs_of(options_)));
      unusable_ = false;
      for (std::size_t i = 0; i < properties_.size(); ++i) {
        ++step_;
        if (unusable_ || done_before(properties_[i]->name(), subject)) continue;
        PairRun::Limits limits{planned_cases(), 0, jobs_of(options_)};
        if (options_.seconds > 0) {  // what is left is shared among the properties still to run
          const double left = options_.seconds - seconds_since(subject_begin);
          limits.seconds = std::max(0.05, left / static_cast<double>(properties_.size() - i));
        }
        if (!run_pair(*properties_[i], subject, limits, folder, steps)) return finish(false);
      }
    }
    return finish(true);
  }

  std::int64_t planned_cases() const {
    if (options_.cases > 0) return options_.cases;
    return options_.seconds > 0 ? 0 : default_cases(options_.size);
  }

  void open_folder() {
    open_report(options_.report, options_.resume);
    if (!options_.resume || !std::filesystem::exists(options_.report / "summary.json")) return;
    const RunSummary before = read_report(options_.report);
    require_same_run(before, summary_, options_.report);
    seconds_before_ = before.seconds;
    summary_.subjects = before.subjects;
    summary_.distribution = before.distribution;
    for (const PropertyResult& result : before.results) {
      if (result.whole && is_wanted(result.property)) add(result);
    }
  }

  /// Not a line that the caller of an earlier run added, as `check` does for goldens.
  bool is_wanted(const std::string& property) const {
    return std::any_of(properties_.begin(), properties_.end(),
                       [&](const Property* p) { return property == p->name(); });
  }

  bool done_before(const std::string& property, const std::string& subject) const {
    return std::any_of(
        summary_.results.begin(), summary_.results.end(),
        [&](const PropertyResult& r) { return r.property == property && r.subject == subject; });
  }

  void tell(const Property& property, const std::string& subject, int steps, Progress progress) {
    if (!options_.on_progress) return;
    progress.property = property.name();
    progress.subject = subject;
    progress.step = step_;
    progress.steps = steps;
    progress.seconds = seconds_before_ + seconds_since(begin_);
    if (options_.seconds > 0) {
      const double all = options_.seconds * static_cast<double>(options_.subjects.size());
      progress.seconds_left = std::max(0.0, all - seconds_since(begin_));
    } else if (progress.planned > 0 && progress.done > 0) {
      const double share = (step_ - 1 + double(progress.done) / double(progress.planned)) / steps;
      if (share > 0) progress.seconds_left = seconds_since(begin_) * (1 / share - 1);
    }
    options_.on_progress(progress);
  }

  /// False if the run was interrupted on the way.
  bool run_pair(const Property& property, const std::string& subject, PairRun::Limits limits,
                const CaseFolder& folder, int steps) {
    PairResult result(options_, property, subject, files_);
    if (const auto answer = prepare(property, subject, folder, limits, result)) return *answer;
    PairRun pair(options_, property, subject, limits, folder, judges_,
                 [&](const Progress& p) { tell(property, subject, steps, p); });
    pair.run();
    result.count(pair.records());
    if (!pair.unusable().empty()) {
      give_up(pair.unusable(), result);
    } else {
      result.study(pair.records(), [&] {
        Progress shrinking;
        shrinking.done = static_cast<std::int64_t>(pair.records().size());
        shrinking.shrinking = true;
        tell(property, subject, steps, shrinking);
      });
    }
    if (!unusable_) result.look_earlier(*judges_[0], violated_before(subject));
    PropertyResult& line = result.result();
    line.seconds = pair.seconds();
    line.whole = !pair.stopped();
    if (line.whole) {
      for (const Record& record : pair.records()) enter(record, subject);
      if (options_.shards == 1) judge_listed(line);  // of shards, `report merge` can say it
    }
    keep(line);
    return line.whole;
  }

  std::vector<const Property*> violated_before(const std::string& subject) const {
    std::vector<const Property*> violated;
    for (const PropertyResult& result : summary_.results) {
      if (result.subject == subject && result.verdict == VerdictKind::differs)
        violated.push_back(&find_property(result.property));
    }
    return violated;
  }

  /// What comes before generated cases. An answer is that of run_pair: there is nothing more to do.
  std::optional<bool> prepare(const Property& property, const std::string& subject,
                              const CaseFolder& folder, PairRun::Limits& limits,
                              PairResult& result) {
    try {
      CaseJudge& judge = judge_of(judges_, 0, options_, subject);
      summary_.subjects[subject].info = judge.info();
      limits.cases = affordable_cases(limits.cases, subject, judge.info());
      const std::string unmet = unmet_needs(property, judge.info());
      if (unmet.empty()) {
        result.judge_kept(judge, folder.running(0));
        return std::nullopt;
      }
      result.not_applicable("the subject lacks " + unmet);
    } catch (const SubjectUnusable& e) {
      give_up(e.what(), result);
    } catch (const SubjectInterrupted&) {
      return false;
    }
    keep(result.result());
    return true;
  }

  /// Fewer than planned where a case is slow and nobody asked for a number.
  std::int64_t affordable_cases(std::int64_t planned, const std::string& subject,
                                const SubjectInfo& info) const {
    if (planned == 0 || options_.cases > 0) return planned;
    if (info.emulated) planned = std::min(planned, default_cases(CaseSize::emulated));
    if (const auto adapter = find_adapter(subject)) planned = std::min(planned, adapter->cases);
    return planned;
  }

  /// The subject cannot be used at all: one verdict, and none of its other properties.
  void give_up(const std::string& why, PairResult& result) {
    unusable_ = true;
    result.give_up(why);
  }

  void enter(const Record& record, const std::string& subject) {
    kvconform::add(record.buckets, summary_.distribution);
    if (!was_compared(record.verdict.kind)) return;
    for (const std::string& name : record.classes) ++summary_.subjects[subject].coverage[name].met;
  }

  void add(PropertyResult result) {
    for (const auto& [kind, number] : result.counts) summary_.counts[kind] += number;
    summary_.cases += result.cases;
    summary_.results.push_back(std::move(result));
  }

  void keep(PropertyResult result) {
    add(std::move(result));
    write(false);
    if (options_.on_result) options_.on_result(summary_.results.back());
  }

  void write(bool complete) {
    summary_.complete = complete;
    summary_.seconds = seconds_before_ + seconds_since(begin_);
    if (!options_.report.empty()) write_report(summary_, options_.report);
  }

  RunSummary finish(bool complete) {
    summary_.interrupted = !complete;
    summary_.complete = complete;
    judge_coverage(summary_);
    write(complete);
    return summary_;
  }

  const RunOptions& options_;
  std::vector<const Property*> properties_;
  RunSummary summary_;
  Clock::time_point begin_ = Clock::now();
  double seconds_before_ = 0;
  int step_ = 0;
  FailureFiles files_{options_};
  Judges judges_;          // of the subject under way
  bool unusable_ = false;  // that subject has been given up
};

}  // namespace

RunSummary run_properties(const RunOptions& options) {
  return Run(options).run();
}

int exit_code(const RunSummary& summary) {
  if (summary.ended_with) return *summary.ended_with;
  if (summary.interrupted) return 130;
  bool compared = false, failed = false;
  for (const PropertyResult& result : summary.results) {
    for (const VerdictCounts* counts : {&result.counts, &result.kept}) {
      if (counts->count(VerdictKind::broken)) return 4;
      for (const auto& [kind, number] : *counts) {
        failed |= number > 0 && is_failure(kind);
        compared |= number > 0 && was_compared(kind);
      }
    }
    failed |= is_failure(result.verdict);  // an entry of the ledger that no case fitted
  }
  if (failed) return 1;
  if (!compared) return 3;
  for (const auto& [name, books] : summary.subjects) {
    if (summary.coverage_judged && !missing_classes(books).empty()) return 3;
  }
  return 0;
}

}  // namespace kvconform
