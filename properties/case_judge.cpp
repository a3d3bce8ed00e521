// One case at a time.
#include "properties/case_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/shrinking.h"
#include "properties/yardstick.h"
#include "reference/error.h"

namespace kvconform {
namespace {

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

}  // namespace

CaseJudge::CaseJudge(const std::string& subject, const std::string& against,
                     const SubjectOptions& options)
    : subject_(make_subject(subject, options)),
      against_(against, make_subject(against, options)),
      make_another_([=] { return make_subject(subject, options); }) {}

Verdict CaseJudge::judge(const Property& property, const Case& test_case, bool traces) {
  against_.forget_use();
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
  return property.judge(test_case, judgement);
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
