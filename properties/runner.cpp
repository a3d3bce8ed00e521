// Working through properties × subjects with a few threads. Records are kept by index and joined at
// the end, so that the number of threads changes nothing.
#include "properties/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "properties/books.h"
#include "properties/case_judge.h"
#include "properties/environment.h"
#include "properties/failure_study.h"
#include "properties/pair_run.h"
#include "properties/reports/report.h"
#include "properties/reports/resume.h"
#include "properties/subject_registry.h"
#include "properties/subjects/adapters.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

constexpr double kAdapterShrinkSeconds = 3;

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
      judges_.resize(static_cast<std::size_t>(jobs()));
      unusable_ = false;
      for (std::size_t i = 0; i < properties_.size(); ++i) {
        ++step_;
        if (unusable_ || done_before(properties_[i]->name(), subject)) continue;
        PairRun::Limits limits{planned_cases(), 0, jobs()};
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

  int jobs() const {
    if (options_.jobs > 0) return options_.jobs;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
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
    PropertyResult result;
    result.property = property.name();
    result.sentence = property.sentence();
    result.subject = subject;
    result.against = options_.against;
    result.seed = options_.seed;
    result.listed = listed_for(options_.known, property.name(), subject);
    std::optional<KeptFailure> kept;
    try {
      const SubjectInfo& info = judge_of(judges_, 0, options_, subject).info();
      summary_.subjects[subject].info = info;
      if (limits.cases > 0 && options_.cases == 0 && info.emulated) {  // fibers are slow
        limits.cases = std::min(limits.cases, default_cases(CaseSize::emulated));
      }
      const auto adapter = find_adapter(subject);
      if (limits.cases > 0 && options_.cases == 0 && adapter) {
        limits.cases = std::min(limits.cases, adapter->cases);
      }
      const std::string unmet = unmet_needs(property, info);
      if (!unmet.empty()) {
        result.verdict = VerdictKind::not_applicable;
        result.message = "the subject lacks " + unmet;
        keep(std::move(result));
        return true;
      }
      kept = judge_kept(property, subject, folder, result);
    } catch (const SubjectUnusable& e) {
      give_up(e.what(), result);
      keep(std::move(result));
      return true;
    } catch (const SubjectInterrupted&) {
      return false;
    }
    PairRun pair(options_, property, subject, limits, folder, judges_,
                 [&](const Progress& p) { tell(property, subject, steps, p); });
    pair.run();
    count(pair.records(), result);
    const Record* failure = worst_failure(pair.records());
    const bool kept_is_worst =
        kept && (!failure || !is_worse(failure->verdict.kind, kept->verdict.kind));
    if (!pair.unusable().empty()) {
      give_up(pair.unusable(), result);
    } else if (kept_is_worst) {
      study_kept(property, subject, *kept, result);
    } else if (failure != nullptr) {
      Progress shrinking;
      shrinking.done = static_cast<std::int64_t>(pair.records().size());
      shrinking.shrinking = true;
      tell(property, subject, steps, shrinking);
      study(property, subject, *failure, result);
      const bool flaky = result.failure->verdict.kind == VerdictKind::flaky;
      // Flaky after all: the verdict may now be that of cases which failed in another way.
      if (const Record* other = flaky ? first_with(result.verdict, pair.records()) : nullptr;
          other != nullptr && other->verdict.kind != failure->verdict.kind) {
        failure = other;
        study(property, subject, *failure, result);
      }
      tell_of_others(property, subject, pair.records(), failure->verdict.kind, result);
    }
    result.seconds = pair.seconds();
    result.whole = !pair.stopped();
    if (result.whole) {
      for (const Record& record : pair.records()) enter(record, subject);
      if (options_.shards == 1) judge_listed(result);  // of shards, `report merge` can say it
    }
    const bool whole = result.whole;
    keep(std::move(result));
    return whole;
  }

  /// The subject cannot be used at all: one verdict, and none of its other properties.
  void give_up(const std::string& why, PropertyResult& result) {
    unusable_ = true;
    result.verdict = VerdictKind::broken;
    result.message = why;
    ++result.counts[VerdictKind::broken];
    ++result.cases;
  }

  /// The first of those with the verdict that the property is given.
  static const Record* worst_failure(const std::vector<Record>& records) {
    const Record* worst = nullptr;
    for (const Record& record : records) {
      if (!is_failure(record.verdict.kind)) continue;
      if (worst == nullptr || is_worse(record.verdict.kind, worst->verdict.kind)) worst = &record;
    }
    return worst;
  }

  static const Record* first_with(VerdictKind kind, const std::vector<Record>& records) {
    const auto found = std::find_if(records.begin(), records.end(),
                                    [kind](const Record& r) { return r.verdict.kind == kind; });
    return found == records.end() ? nullptr : &*found;
  }

  /// A subject that breaks now and then may compute something wrong as well.
  void tell_of_others(const Property& property, const std::string& subject,
                      const std::vector<Record>& records, VerdictKind shown,
                      PropertyResult& result) {
    const Record* first = nullptr;
    OtherFailure others;
    for (const Record& record : records) {
      if (!is_failure(record.verdict.kind) || record.verdict.kind == shown) continue;
      if (first == nullptr) first = &record;
      ++others.cases;
    }
    if (first == nullptr) return;
    others.verdict = first->verdict.kind;
    others.message = first->verdict.message;
    if (!options_.report.empty() || !options_.stop_at_first_failure) {
      others.file = failure_file(property.name(), subject, std::to_string(first->index));
      write_case(
          asked_of_subject(generate_case(options_, property, first->index, first->size), subject),
          others.file);
    }
    result.besides = std::move(others);
  }

  static void count(const std::vector<Record>& records, PropertyResult& result) {
    if (records.empty()) {
      result.verdict = VerdictKind::nothing_compared;
      result.message = "no case of the property was run";
    }
    for (const Record& record : records) {
      ++result.counts[record.verdict.kind];
      if (record.listed >= 0) ++result.listed[static_cast<std::size_t>(record.listed)].matched;
      result.budget_used = std::max(result.budget_used, record.verdict.budget_used);
      result.against_used |= record.against_used;
      note_reason(record.verdict.kind, record.verdict.message, 1, result);
      if (is_worse(record.verdict.kind, result.verdict) || result.cases == 0) {
        result.verdict = record.verdict.kind;
        result.message = record.verdict.message;
      }
      ++result.cases;
    }
  }

  void enter(const Record& record, const std::string& subject) {
    kvconform::add(record.buckets, summary_.distribution);
    if (!was_compared(record.verdict.kind)) return;
    for (const std::string& name : record.classes) ++summary_.subjects[subject].coverage[name].met;
  }

  struct KeptFailure {
    const KeptCase* kept;
    Verdict verdict;
  };

  /// Runs the cases kept for a property. The first of those that fail worst, if any does.
  std::optional<KeptFailure> judge_kept(const Property& property, const std::string& subject,
                                        const CaseFolder& folder, PropertyResult& result) {
    std::optional<KeptFailure> first;
    if (options_.shard != 1) return first;
    CaseJudge& judge = judge_of(judges_, 0, options_, subject);
    for (const KeptCase& kept : options_.kept) {
      if (kept.test_case.property != property.name() || !fits(kept.test_case)) continue;
      if (options_.stop != nullptr && *options_.stop) throw SubjectInterrupted();
      const Case test_case = asked_of_subject(kept.test_case, subject);
      write_case(test_case, folder.running(0));
      Verdict verdict = judge.judge(property, test_case, /*traces=*/!result.listed.empty());
      result.against_used |= judge.against_used();
      const int listed = is_failure(verdict.kind) ? find_listed(result.listed, verdict) : -1;
      if (listed >= 0) {
        ++result.listed[static_cast<std::size_t>(listed)].matched;
        verdict.kind = VerdictKind::known;
      }
      ++result.kept[verdict.kind];
      if (is_failure(verdict.kind) && (!first || is_worse(verdict.kind, first->verdict.kind)))
        first = KeptFailure{&kept, verdict};
    }
    return first;
  }

  /// Cases of checkpoints belong to runs that are given that checkpoint, the others to the rest.
  bool fits(const Case& test_case) const {
    const std::filesystem::path& folder = test_case.model.folder;
    if (folder.empty()) return options_.models.empty();
    return std::find(options_.models.begin(), options_.models.end(), folder) !=
           options_.models.end();
  }

  Case asked_of_subject(Case test_case, const std::string& subject) const {
    test_case.subject = subject;
    test_case.against = options_.against;
    return test_case;
  }

  void study(const Property& property, const std::string& subject, const Record& record,
             PropertyResult& result) {
    const Case test_case =
        asked_of_subject(generate_case(options_, property, record.index, record.size), subject);
    const FailureStudy failure =
        studied(property, test_case, record.verdict, shrink_seconds(subject));
    if (failure.verdict.kind == VerdictKind::flaky) {
      move_one(result.counts, record.verdict.kind, VerdictKind::flaky);
      result.verdict = VerdictKind::flaky;  // unless another case failed in a worse way
      for (const auto& [kind, number] : result.counts)
        if (is_worse(kind, result.verdict)) result.verdict = kind;
    }
    result.failure =
        Failure{failure.smallest, failure.verdict, {}, static_cast<std::uint64_t>(record.index)};
    save_failure(subject, std::to_string(record.index), result);
  }

  double shrink_seconds(const std::string& subject) const {
    return find_adapter(subject) ? std::min(options_.shrink_seconds, kAdapterShrinkSeconds)
                                 : options_.shrink_seconds;
  }

  /// Kept cases are small already.
  void study_kept(const Property& property, const std::string& subject, const KeptFailure& kept,
                  PropertyResult& result) {
    const Case test_case = asked_of_subject(kept.kept->test_case, subject);
    const FailureStudy failure = studied(property, test_case, kept.verdict, 0);
    if (failure.verdict.kind == VerdictKind::flaky)
      move_one(result.kept, kept.verdict.kind, VerdictKind::flaky);
    if (is_worse(failure.verdict.kind, result.verdict)) result.verdict = failure.verdict.kind;
    result.failure = Failure{failure.smallest, failure.verdict, {}, test_case.index, true};
    save_failure(subject, kept_name(kept.kept->file), result);
    result.message += fmt::format(" (a case kept from earlier, {})", kept.kept->file.string());
  }

  FailureStudy studied(const Property& property, const Case& test_case, const Verdict& seen,
                       double seconds) const {
    const StudyLimits limits{seconds, options_.stop, {}, subject_options(options_)};
    try {
      return study_failure(property, test_case, seen, limits);
    } catch (const SubjectInterrupted&) {
      return {test_case, seen};  // kept as it was found
    }
  }

  static void move_one(VerdictCounts& counts, VerdictKind from, VerdictKind to) {
    if (--counts[from] == 0) counts.erase(from);
    ++counts[to];
  }

  void save_failure(const std::string& subject, const std::string& which, PropertyResult& result) {
    result.message = result.failure->verdict.message;
    if (options_.report.empty() && options_.stop_at_first_failure) return;
    const std::filesystem::path file = failure_file(result.property, subject, which);
    write_case(result.failure->smallest, file);
    result.failure->file = file;
  }

  /// In the report, or else in one folder for all failures of the run that stays until the user
  /// removes it; whoever prints the failures names it.
  std::filesystem::path failure_file(const std::string& property, const std::string& subject,
                                     const std::string& which) {
    const std::string file = failure_file_name(property, subject, which);
    if (!options_.report.empty()) {
      std::filesystem::create_directories(options_.report / "failures");
      return options_.report / "failures" / file;
    }
    if (failures_.empty()) failures_ = make_kept_folder("kvconform-failures");
    return failures_ / file;
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
  Judges judges_;                   // of the subject under way
  bool unusable_ = false;           // that subject has been given up
  std::filesystem::path failures_;  // where there is no report; made for the first failure
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
