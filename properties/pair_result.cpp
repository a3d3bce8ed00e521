// From the records of one property on one subject to a line of the report.
#include "properties/pair_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "properties/books.h"
#include "properties/subjects/adapters.h"

namespace kvconform {
namespace {

constexpr double kAdapterShrinkSeconds = 2;  // a case takes them 20 to 50 ms
constexpr int kAdapterTried = 20;
constexpr int kStudyJobs = 4;  // each starts a process, where the subject is one

double shrink_seconds(const RunOptions& options, const std::string& subject) {
  return find_adapter(subject) ? std::min(options.shrink_seconds, kAdapterShrinkSeconds)
                               : options.shrink_seconds;
}

void move_one(VerdictCounts& counts, VerdictKind from, VerdictKind to) {
  if (--counts[from] == 0) counts.erase(from);
  ++counts[to];
}

/// Of those with the verdict that the property is given, the first that is clear, or the first.
const Record* worst_failure(const std::vector<Record>& records) {
  const Record* worst = nullptr;
  const auto is_better = [&](const Verdict& verdict) {
    if (worst == nullptr || is_worse(verdict.kind, worst->verdict.kind)) return true;
    return verdict.kind == worst->verdict.kind && !is_clear(worst->verdict) && is_clear(verdict);
  };
  for (const Record& record : records) {
    if (is_failure(record.verdict.kind) && is_better(record.verdict)) worst = &record;
  }
  return worst;
}

const Record* first_with(VerdictKind kind, const std::vector<Record>& records) {
  const auto found = std::find_if(records.begin(), records.end(),
                                  [kind](const Record& r) { return r.verdict.kind == kind; });
  return found == records.end() ? nullptr : &*found;
}

}  // namespace

PairResult::PairResult(const RunOptions& options, const Property& property,
                       const std::string& subject, FailureFiles& files)
    : options_(options), property_(property), files_(files) {
  result_.property = property.name();
  result_.sentence = property.sentence();
  result_.subject = subject;
  result_.against = options.against;
  result_.seed = options.seed;
  result_.listed = listed_for(options.known, property.name(), subject);
}

// ---- counting ----

void PairResult::judge_kept(CaseJudge& judge, const std::filesystem::path& running) {
  if (options_.shard != 1) return;
  for (const KeptCase& kept : options_.kept) {
    if (kept.test_case.property != property_.name() || !fits(kept.test_case)) continue;
    if (options_.stop != nullptr && *options_.stop) throw SubjectInterrupted();
    const Case test_case = asked_of_subject(kept.test_case);
    write_case(test_case, running);
    const Verdict verdict = judge_kept_case(judge, test_case);
    ++result_.kept[verdict.kind];
    if (is_failure(verdict.kind) && (!kept_ || is_worse(verdict.kind, kept_->verdict.kind))) {
      kept_ = KeptFailure{&kept, verdict};
    }
  }
}

/// Cases of checkpoints belong to runs that are given that checkpoint, the others to the rest.
bool PairResult::fits(const Case& test_case) const {
  const std::filesystem::path& folder = test_case.model.folder;
  if (folder.empty()) return options_.models.empty();
  return std::find(options_.models.begin(), options_.models.end(), folder) != options_.models.end();
}

Verdict PairResult::judge_kept_case(CaseJudge& judge, const Case& test_case) {
  Verdict verdict = judge.judge(property_, test_case, /*traces=*/!result_.listed.empty());
  result_.against_used |= judge.against_used();
  const int listed = is_failure(verdict.kind) ? find_listed(result_.listed, verdict) : -1;
  if (listed >= 0) {
    ++result_.listed[static_cast<std::size_t>(listed)].matched;
    verdict.kind = VerdictKind::known;
  }
  return verdict;
}

void PairResult::count(const std::vector<Record>& records) {
  if (records.empty()) {
    result_.verdict = VerdictKind::nothing_compared;
    result_.message = "no case of the property was run";
  }
  for (const Record& record : records) {
    const Verdict& verdict = record.verdict;
    ++result_.counts[verdict.kind];
    if (record.listed >= 0) ++result_.listed[static_cast<std::size_t>(record.listed)].matched;
    result_.budget_used = std::max(result_.budget_used, verdict.budget_used);
    result_.against_used |= record.against_used;
    note_reason({verdict.kind, verdict.message, 1, verdict.request}, result_);
    if (is_worse(verdict.kind, result_.verdict) || result_.cases == 0) {
      result_.verdict = verdict.kind;
      result_.message = in_words(verdict);
    }
    ++result_.cases;
  }
}

void PairResult::give_up(const std::string& why) {
  result_.verdict = VerdictKind::broken;
  result_.message = why;
  ++result_.counts[VerdictKind::broken];
  ++result_.cases;
}

void PairResult::not_applicable(const std::string& why) {
  result_.verdict = VerdictKind::not_applicable;
  result_.message = why;
}

// ---- studying failures ----

void PairResult::study(const std::vector<Record>& records,
                       const std::function<void()>& before_shrinking) {
  const Record* failure = worst_failure(records);
  if (kept_ && (failure == nullptr || !is_worse(failure->verdict.kind, kept_->verdict.kind))) {
    study_kept();
  } else if (failure != nullptr) {
    before_shrinking();
    const Record* shown = study_steadily(*failure, records);
    name_others(records, shown->verdict.kind);
  }
}

/// Flaky after all: the verdict may now be that of cases which failed in another way, and one of
/// those is to be shown.
const Record* PairResult::study_steadily(const Record& failure,
                                         const std::vector<Record>& records) {
  study_record(failure);
  if (result_.failure->verdict.kind != VerdictKind::flaky) return &failure;
  const Record* other = first_with(result_.verdict, records);
  if (other == nullptr || other->verdict.kind == failure.verdict.kind) return &failure;
  study_record(*other);
  return other;
}

void PairResult::study_record(const Record& record) {
  const FailureStudy study =
      studied(drawn(record), record.verdict, shrink_seconds(options_, result_.subject));
  if (study.verdict.kind == VerdictKind::flaky) {
    move_one(result_.counts, record.verdict.kind, VerdictKind::flaky);
    result_.verdict = VerdictKind::flaky;  // unless another case failed in a worse way
    for (const auto& [kind, number] : result_.counts) {
      if (is_worse(kind, result_.verdict)) result_.verdict = kind;
    }
  }
  const auto index = static_cast<std::uint64_t>(record.index);
  save(study, std::to_string(record.index), index, false);
}

/// Kept cases are small already.
void PairResult::study_kept() {
  const Case test_case = asked_of_subject(kept_->kept->test_case);
  const FailureStudy study = studied(test_case, kept_->verdict, 0);
  if (study.verdict.kind == VerdictKind::flaky) {
    move_one(result_.kept, kept_->verdict.kind, VerdictKind::flaky);
  }
  if (is_worse(study.verdict.kind, result_.verdict)) result_.verdict = study.verdict.kind;
  save(study, kept_name(kept_->kept->file), test_case.index, true);
  result_.message += fmt::format(" (a case kept from earlier, {})", kept_->kept->file.string());
}

/// A subject that breaks now and then may compute something wrong as well.
void PairResult::name_others(const std::vector<Record>& records, VerdictKind shown) {
  const Record* first = nullptr;
  OtherFailure others;
  for (const Record& record : records) {
    if (!is_failure(record.verdict.kind) || record.verdict.kind == shown) continue;
    if (first == nullptr) first = &record;
    ++others.cases;
  }
  if (first == nullptr) return;
  others.verdict = first->verdict.kind;
  others.message = in_words(first->verdict);
  others.file = files_.keep(drawn(*first), std::to_string(first->index));
  result_.besides = std::move(others);
}

void PairResult::look_earlier(CaseJudge& judge, const std::vector<const Property*>& violated) {
  if (!result_.failure || result_.failure->verdict.kind != VerdictKind::differs) return;
  for (const Property* earlier : violated) {
    if (!earlier->holds_of_any_case()) continue;
    try {
      const Verdict verdict = judge.judge(*earlier, result_.failure->smallest, /*traces=*/false);
      if (verdict.kind != VerdictKind::differs) continue;
    } catch (const SubjectUnusable&) {
      return;  // the failure stands, and the next property will say so
    } catch (const SubjectInterrupted&) {
      return;
    }
    result_.failure->breaks_too = earlier->name();
    return;
  }
}

FailureStudy PairResult::studied(const Case& test_case, const Verdict& seen, double seconds) const {
  StudyLimits limits{seconds, options_.stop, {}, subject_options(options_)};
  limits.jobs = std::min(jobs_of(options_), kStudyJobs);
  if (find_adapter(result_.subject)) limits.least_tried = kAdapterTried;
  try {
    return study_failure(property_, test_case, seen, limits);
  } catch (const SubjectInterrupted&) {
    return {test_case, seen};  // kept as it was found
  }
}

void PairResult::save(FailureStudy study, const std::string& which, std::uint64_t found_at,
                      bool kept) {
  result_.message = in_words(study.verdict);
  const std::filesystem::path file = files_.keep(study.smallest, which);
  result_.failure =
      Failure{std::move(study.smallest), std::move(study.verdict), file, found_at, kept};
}

Case PairResult::drawn(const Record& record) const {
  return asked_of_subject(generate_case(options_, property_, record.index, record.size));
}

Case PairResult::asked_of_subject(Case test_case) const {
  test_case.subject = result_.subject;
  test_case.against = options_.against;
  return test_case;
}

}  // namespace kvconform
