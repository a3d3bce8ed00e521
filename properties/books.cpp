// Minimum and ledger.
#include "properties/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/case_judge.h"
#include "properties/requirements.h"
#include "reference/counted.h"

namespace kvconform {
namespace {

/// A share of the cases that the generators reach with room to spare; README.md has the counts.
constexpr std::int64_t kCasesForEachHardOne = 400;
/// As at default size. Runs limited by time give slow properties, which alone meet some classes,
/// few cases.
constexpr std::int64_t kMostRequired = 12;

/// How likely a healthy subject may be to miss what is required of one class.
constexpr double kBadLuck = 1e-6;

bool is_generated(const std::string& property) {
  return std::any_of(all_properties().begin(), all_properties().end(),
                     [&](const auto& p) { return property == p->name(); });
}

std::string why(const KnownFailure& entry) {
  return fmt::format("{} ({})", entry.reason, entry.link);
}

constexpr std::size_t kReasonsKept = 8;
constexpr const char* kOtherReasons = "other reasons";

}  // namespace

std::int64_t compared_of(const VerdictCounts& counts) {
  std::int64_t compared = 0;
  for (const auto& [kind, number] : counts) compared += was_compared(kind) ? number : 0;
  return compared;
}

void note_reason(const Reason& reason, PropertyResult& result) {
  const VerdictKind kind = reason.verdict;
  if (kind != VerdictKind::refused && kind != VerdictKind::not_applicable) return;
  const auto entry_of = [&](const std::string& words) {
    return std::find_if(result.reasons.begin(), result.reasons.end(),
                        [&](const Reason& r) { return r.verdict == kind && r.text == words; });
  };
  auto found = entry_of(reason.text);
  if (found == result.reasons.end() && result.reasons.size() >= kReasonsKept)
    found = entry_of(kOtherReasons);
  if (found != result.reasons.end()) {
    found->cases += reason.cases;
    return;
  }
  const bool full = result.reasons.size() >= kReasonsKept;
  result.reasons.push_back(reason);
  if (full) result.reasons.back() = {kind, kOtherReasons, reason.cases};
}

std::string reasons_text(const PropertyResult& result) {
  constexpr std::size_t kTexts = 3, kLength = 120;
  std::string text;
  for (VerdictKind kind : {VerdictKind::refused, VerdictKind::not_applicable}) {
    std::size_t told = 0;
    std::int64_t all = 0;
    std::string list;
    for (const Reason& reason : result.reasons) {
      if (reason.verdict != kind) continue;
      all += reason.cases;
      if (++told > kTexts) continue;
      const bool cut = reason.text.size() > kLength;
      list += fmt::format("{}{}{} ({}{})", list.empty() ? "" : ", ", reason.text.substr(0, kLength),
                          cut ? "…" : "", reason.cases,
                          reason.first.empty() ? "" : "; first: " + reason.first);
    }
    if (told > kTexts) list += ", …";
    if (all > 0)
      text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", all, to_string(kind), list);
  }
  return text;
}

std::int64_t compared_on(const RunSummary& summary, const std::string& subject) {
  std::int64_t compared = 0;
  for (const PropertyResult& result : summary.results) {
    if (result.subject == subject && is_generated(result.property))
      compared += compared_of(result.counts);
  }
  return compared;
}

std::int64_t required_among(std::int64_t compared, int one_in) {
  const std::int64_t wanted =
      std::clamp<std::int64_t>(compared / kCasesForEachHardOne, 1, kMostRequired);
  const double mean = static_cast<double>(compared) / one_in;
  if (mean == 0) return 0;
  double missed = 0;  // the chance of no more than `certain` cases, by Poisson's distribution
  for (std::int64_t certain = 0; certain < wanted; ++certain) {
    const auto k = static_cast<double>(certain);
    missed += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
    if (missed > kBadLuck) return certain;
  }
  return wanted;
}

void judge_coverage(RunSummary& summary) {
  const bool judged = summary.complete && summary.coverage_judged;
  summary.coverage.clear();
  for (const std::string& name : all_coverage_classes()) {
    Coverage& total = summary.coverage[name];
    for (auto& [subject, books] : summary.subjects) {
      Coverage& own = books.coverage[name];
      const bool due = judged && can_meet(name, books.info);
      own.required = due ? required_among(compared_on(summary, subject), one_case_in(name)) : 0;
      total.met += own.met;
      total.required += own.required;
    }
  }
}

std::map<std::string, Coverage> missing_classes(const SubjectBooks& books) {
  std::map<std::string, Coverage> missing;
  for (const auto& [name, entry] : books.coverage) {
    if (entry.met < entry.required) missing[name] = entry;
  }
  return missing;
}

void judge_listed(PropertyResult& result) {
  if (compared_of(result.counts) + compared_of(result.kept) == 0) return;
  for (const ListedFailure& listed : result.listed) {
    if (listed.matched > 0) {
      if (result.verdict == VerdictKind::known)
        result.message = fmt::format("known failure, {} of {}: {}", listed.matched,
                                     counted(result.cases, "case"), why(listed.entry));
    } else if (is_worse(VerdictKind::unexpectedly_conforms, result.verdict)) {
      result.verdict = VerdictKind::unexpectedly_conforms;
      result.message = fmt::format(
          "listed as a known failure, but no case failed so: {}; if it is repaired, remove the "
          "entry from the ledger",
          why(listed.entry));
    }
  }
}

}  // namespace kvconform
