// One case at a time.
#include "properties/case_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/shrinking.h"
#include "properties/yardstick.h"
#include "reference/error.h"

namespace kvconform {
namespace {

/// For words after the last reply of a case. They mostly come together with it; the next request
/// finds those that come later.
constexpr std::chrono::milliseconds kPatienceInRuns{1}, kPatienceInStudies{50};

int badness(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::conforms:
      return 3;
    case VerdictKind::nothing_compared:
    case VerdictKind::not_applicable:
      return 0;
    case VerdictKind::ill_conditioned:
      return 1;
    case VerdictKind::refused:
      return 2;
    case VerdictKind::known:
      return 4;
    case VerdictKind::unexpectedly_conforms:
      return 5;
    case VerdictKind::flaky:
      return 6;
    case VerdictKind::differs:
      return 7;
    case VerdictKind::broken:
      return 8;
  }
  return 8;
}

/// The last guard: properties guard what they ask of a subject themselves (equivalence.h), but one
/// request forgotten there must cost a case and not the run.
Verdict judge_whatever_happens(const Property& property, const Case& test_case,
                               Judgement& judgement) {
  try {
    return property.judge(test_case, judgement);
  } catch (const SubjectUnusable&) {
    throw;  // ends the subject's run, not only this case
  } catch (const SubjectBroken& e) {
    return {VerdictKind::broken, e.what(), std::nullopt, 0, ""};
  } catch (const SubjectRefusal& e) {
    if (e.kind == SubjectRefusal::Kind::unsupported)
      return {VerdictKind::refused, e.what(), std::nullopt, 0, ""};
    const std::string message = std::string("refused a valid request: ") + e.what();
    return {VerdictKind::differs, message, std::nullopt, 0, ""};
  }
}

}  // namespace

CaseJudge::CaseJudge(const std::string& subject, const std::string& against,
                     const SubjectOptions& options)
    : make_another_([=, log = log_] {
        return std::make_unique<NotedSubject>(make_subject(subject, options), log);
      }),
      subject_(make_another_()),
      against_(against, std::make_unique<NotedSubject>(make_subject(against, options), log_)) {}

Verdict CaseJudge::judge(const Property& property, const Case& test_case, bool traces) {
  against_.forget_use();
  log_->begin_case();
  const std::string unmet = unmet_needs(property, subject_->info());
  if (!unmet.empty()) {
    return {VerdictKind::not_applicable, "the subject lacks " + unmet, std::nullopt, 0, ""};
  }
  const auto source = make_model_source(test_case.model);
  Yardstick yardstick(source->checkpoint(), subject_->info().dtype);
  const auto another = [this]() -> Subject& {
    if (!another_) another_ = make_another_();
    return *another_;
  };
  Judgement judgement{*source, *subject_, against_, yardstick, traces, another};
  Verdict verdict = judge_whatever_happens(property, test_case, judgement);
  log_->explain(verdict);
  end_case(traces ? kPatienceInStudies : kPatienceInRuns, verdict);
  return verdict;
}

void CaseJudge::end_case(std::chrono::milliseconds patience, Verdict& verdict) {
  try {
    subject_->end_case(patience);
    if (against_.used()) against_.end_case(std::chrono::milliseconds(0));
    if (another_) another_->end_case(std::chrono::milliseconds(0));
  } catch (const SubjectBroken& e) {
    if (verdict.kind == VerdictKind::broken) return;  // the first one is the one to tell
    if (is_failure(verdict.kind))
      verdict.message =
          fmt::format("{}; besides, it {}: {}", e.what(), to_string(verdict.kind), verdict.message);
    else
      verdict.message = e.what(), verdict.request.clear();
    verdict.kind = VerdictKind::broken;
  }
}

Verdict unusable_verdict(const SubjectUnusable& e) {
  return {VerdictKind::broken, e.what(), std::nullopt, 0, ""};
}

const Property& find_property(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& property : all_properties()) {
    if (name == property->name()) return *property;
    names.push_back(property->name());
  }
  throw Error("KV2301", fmt::format("there is no property \"{}\"", name),
              fmt::format("use one of: {}", fmt::join(names, ", ")));
}

std::string unmet_needs(const Property& property, const SubjectInfo& info) {
  std::vector<std::string> unmet;
  for (const std::string& need : property.needs()) {
    if (!info.capabilities.count(need)) unmet.push_back(need);
  }
  return fmt::format("{}", fmt::join(unmet, ", "));
}

bool is_failure(VerdictKind kind) {
  return kind == VerdictKind::differs || kind == VerdictKind::broken ||
         kind == VerdictKind::flaky || kind == VerdictKind::unexpectedly_conforms;
}

bool was_compared(VerdictKind kind) {
  return kind != VerdictKind::not_applicable && kind != VerdictKind::ill_conditioned &&
         kind != VerdictKind::refused && kind != VerdictKind::nothing_compared;
}

bool is_worse(VerdictKind kind, VerdictKind than) {
  return badness(kind) > badness(than);
}

}  // namespace kvconform
