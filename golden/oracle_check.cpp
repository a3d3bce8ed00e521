// The comparison with stored logits (see oracle_check.h).
#include "golden/oracle_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "golden/oracle_comparison.h"
#include "properties/case.h"
#include "reference/checkpoint.h"
#include "reference/model.h"
#include "reference/witness.h"

namespace kvconform {
namespace {

using Score = std::function<Logits(const std::vector<int>&)>;
using BudgetUsed = double (*)(const OracleCase&, const Logits&, const ExpectedArray&);

// Rounding in double, through all layers: 4e-14 of a row's largest logit was measured, and a wrong
// formula or constant shows above 1e-7.
double used_in_double(const OracleCase&, const Logits& logits, const ExpectedArray& expected) {
  return worst_row(logits, expected) / 1e-10;
}

// transformers' own float32 error on this case: both errors are draws from the same noise, and a
// factor of six between two draws is not noise any more.
double used_in_float(const OracleCase& oracle, const Logits& logits,
                     const ExpectedArray& expected) {
  return largest_difference(logits.values, expected.values) /
         (6 * oracle.measured.float32_vs_float64);
}

OracleResult hold(const OracleCase& oracle, const std::string& computed_by,
                  const BudgetUsed& budget_used, const Score& score) {
  OracleResult result{oracle.name, computed_by, true, 0, 0, ""};
  try {
    for (int k = 0; k < static_cast<int>(oracle.prompts.size()); ++k, ++result.prompts) {
      const Logits logits = score(oracle.prompts[static_cast<std::size_t>(k)]);
      const double used = budget_used(oracle, logits, oracle.array(k, "logits_f64"));
      result.budget_used = std::max(result.budget_used, used);
      if (used <= 1) continue;
      result.agrees = false;
      result.message = fmt::format("prompt {}: {:.3g} times the budget", k, used);
    }
  } catch (const std::exception& error) {
    result.agrees = false;
    result.budget_used = std::numeric_limits<double>::infinity();
    result.message = error.what();
  }
  return result;
}

template <class N>
OracleResult hold_model(const OracleCase& oracle, const std::shared_ptr<const Checkpoint>& weights,
                        const std::string& computed_by, const BudgetUsed& budget_used) {
  const Model<N> model(weights);
  return hold(oracle, computed_by, budget_used,
              [&](const std::vector<int>& tokens) { return to_logits(model.score({tokens})); });
}

}  // namespace

std::vector<OracleResult> verify_oracle_case(const OracleCase& oracle) {
  const std::shared_ptr<const Checkpoint> weights = Checkpoint::open(oracle.folder);
  return {hold_model<Float64>(oracle, weights, "reference:double", used_in_double),
          hold(oracle, "witness", used_in_double,
               [&](const std::vector<int>& tokens) { return witness_logits(*weights, tokens); }),
          hold_model<Float32>(oracle, weights, "reference", used_in_float)};
}

OracleResult verify_oracle_case(const OracleCase& oracle, Subject& subject) {
  ModelSpec stored;
  stored.folder = oracle.folder;
  std::optional<Subject::ModelId> model;
  const auto score = [&](const std::vector<int>& tokens) {
    if (!model) model = subject.load(*make_model_source(stored));
    return subject.score(*model, {tokens}).logits;
  };
  return hold(oracle, subject.info().name, used_in_float, score);
}

std::vector<OracleResult> verify_oracle(const std::atomic<bool>* stop) {
  std::vector<OracleResult> results;
  for (const OracleCase& oracle : load_oracle_cases()) {
    if (stop != nullptr && *stop) break;
    for (OracleResult& result : verify_oracle_case(oracle)) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace kvconform
