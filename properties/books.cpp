// Minimum and ledger.
#include "properties/books.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/case_judge.h"
#include "properties/requirements.h"

namespace kvconform {
namespace {

/// A share of the cases that the generators reach with room to spare; README.md has the counts.
constexpr std::int64_t kCasesForEachHardOne = 400;

/// How likely a healthy subject may be to miss what is required of one class.
constexpr double kBadLuck = 1e-6;

bool is_generated(const std::string& property) {
  return std::any_of(all_properties().begin(), all_properties().end(),
                     [&](const auto& p) { return property == p->name(); });
}

std::int64_t compared_of(const VerdictCounts& counts) {
  std::int64_t compared = 0;
  for (const auto& [kind, number] : counts) compared += was_compared(kind) ? number : 0;
  return compared;
}

std::string why(const KnownFailure& entry) {
  return fmt::format("{} ({})", entry.reason, entry.link);
}

}  // namespace

std::int64_t compared_on(const RunSummary& summary, const std::string& subject) {
  std::int64_t compared = 0;
  for (const PropertyResult& result : summary.results) {
    if (result.subject == subject && is_generated(result.property))
      compared += compared_of(result.counts);
  }
  return compared;
}

std::int64_t required_among(std::int64_t compared, int one_in) {
  const std::int64_t wanted = std::max<std::int64_t>(1, compared / kCasesForEachHardOne);
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
        result.message = fmt::format("known failure, {} of {} cases: {}", listed.matched,
                                     result.cases, why(listed.entry));
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
