// Oracle data and goldens as results of a check (see stored_results.h).
#include "cli/stored_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "golden/golden.h"
#include "golden/numerics_kinds.h"
#include "golden/oracle_check.h"
#include "properties/books.h"
#include "properties/case_judge.h"

namespace kvconform::cli {
namespace {

// Counts one comparison; the worst, and of those the first, is what the line of the table says.
void count(PropertyResult& result, VerdictKind kind, const std::string& name,
           const std::string& message) {
  const int listed = is_failure(kind) ? find_listed(result.listed, kind, name) : -1;
  if (listed >= 0) {
    ++result.listed[static_cast<std::size_t>(listed)].matched;
    kind = VerdictKind::known;
  }
  ++result.cases;
  ++result.counts[kind];
  if (!is_worse(kind, result.verdict)) return;
  result.verdict = kind;
  result.message = message;
}

constexpr const char* kOracleSentence =
    "Model and witness compute the logits that other software computed.";
constexpr const char* kGoldenSentence =
    "The subject computes the logits approved for its arithmetic, bit for bit.";

bool is_reference(const std::string& subject) {
  return subject == "reference";
}

void verify_oracle_data(const std::string&, PropertyResult& result) {
  result.against = "stored float64 logits of transformers";
  for (const OracleResult& one : verify_oracle()) {
    result.budget_used = std::max(result.budget_used, one.budget_used);
    count(result, one.agrees ? VerdictKind::conforms : VerdictKind::differs, one.name,
          fmt::format("{}, {}: {}", one.name, one.computed_by, one.message));
  }
}

VerdictKind verdict_of(GoldenStatus status) {
  if (status == GoldenStatus::same) return VerdictKind::conforms;
  if (status == GoldenStatus::not_applicable) return VerdictKind::not_applicable;
  return status == GoldenStatus::failed ? VerdictKind::broken : VerdictKind::differs;
}

void verify_goldens(const std::string& subject, PropertyResult& result) {
  const Numerics numerics = numerics_of_subject(subject);
  result.against = "approved logits, " + numerics.kind;
  for (const GoldenResult& one : verify_all({numerics}))
    count(result, verdict_of(one.status), one.name, one.message);
}

}  // namespace

PropertyResult StoredCheck::verify(const std::string& subject,
                                   std::vector<ListedFailure> listed) const {
  const auto start = std::chrono::steady_clock::now();
  PropertyResult result;
  result.listed = std::move(listed);
  result.property = name;
  result.sentence = sentence;
  result.subject = subject;
  result.against_used = true;
  compare(subject, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result.cases == 0) {  // nothing compared is not passed
    result.verdict = VerdictKind::not_applicable;
    result.counts[result.verdict] = 1;
    result.message = "nothing is stored to compare with";
  }
  judge_listed(result);
  return result;
}

const std::vector<StoredCheck>& stored_checks() {
  static const std::vector<StoredCheck> checks = {
      {"oracle", kOracleSentence, "the subject reference", is_reference, verify_oracle_data},
      {"golden", kGoldenSentence, "the subject reference or cuda", has_goldens, verify_goldens}};
  return checks;
}

}  // namespace kvconform::cli
