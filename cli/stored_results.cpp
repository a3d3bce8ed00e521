// Oracle data and goldens as results of a check (see stored_results.h).
#include "cli/stored_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "golden/golden.h"
#include "golden/numerics_kinds.h"
#include "golden/oracle_check.h"

namespace kvconform::cli {
namespace {

// Counts one comparison; the first failure is what the line of the table says.
void count(PropertyResult& result, VerdictKind kind, const std::string& message) {
  ++result.cases;
  ++result.counts[kind];
  if (kind == VerdictKind::conforms || result.verdict != VerdictKind::conforms) return;
  result.verdict = kind;
  result.message = message;
}

constexpr const char* kOracleSentence =
    "Model and witness compute the logits that other software computed.";
constexpr const char* kGoldenSentence =
    "The float32 reference computes the approved logits, bit for bit.";

PropertyResult oracle() {
  PropertyResult result;
  result.property = "oracle";
  result.sentence = kOracleSentence;
  result.against_used = true;
  result.against = "stored float64 logits of transformers";
  for (const OracleResult& one : verify_oracle()) {
    result.budget_used = std::max(result.budget_used, one.budget_used);
    count(result, one.agrees ? VerdictKind::conforms : VerdictKind::differs,
          fmt::format("{}, {}: {}", one.name, one.computed_by, one.message));
  }
  return result;
}

VerdictKind verdict_of(GoldenStatus status) {
  if (status == GoldenStatus::same) return VerdictKind::conforms;
  if (status == GoldenStatus::not_applicable) return VerdictKind::not_applicable;
  return status == GoldenStatus::failed ? VerdictKind::broken : VerdictKind::differs;
}

PropertyResult golden() {
  PropertyResult result;
  result.property = "golden";
  result.sentence = kGoldenSentence;
  result.against_used = true;
  result.against = "approved logits";
  for (const GoldenResult& one : verify_all({numerics_of_subject("reference")}))
    count(result, verdict_of(one.status), one.message);
  return result;
}

PropertyResult timed(PropertyResult (*verify)()) {
  const auto start = std::chrono::steady_clock::now();
  PropertyResult result = verify();
  result.subject = "reference";
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result.cases == 0) {  // nothing compared is not passed
    result.verdict = VerdictKind::not_applicable;
    result.counts[result.verdict] = 1;
    result.message = "nothing is stored to compare with";
  }
  return result;
}

}  // namespace

const std::vector<StoredCheck>& stored_checks() {
  static const std::vector<StoredCheck> checks = {
      {"oracle", kOracleSentence, [] { return timed(oracle); }},
      {"golden", kGoldenSentence, [] { return timed(golden); }}};
  return checks;
}

}  // namespace kvconform::cli
