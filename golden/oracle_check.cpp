// The comparison with stored logits (see oracle_check.h).
#include "golden/oracle_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <memory>

#include "reference/checkpoint.h"
#include "reference/model.h"
#include "reference/witness.h"

namespace kvconform {
namespace {

using Score = std::function<Logits(const std::vector<int>&)>;

OracleResult hold(const OracleCase& oracle, const std::string& computed_by, double budget,
                  const Score& score) {
  OracleResult result{oracle.name, computed_by, true, 0, 0, ""};
  try {
    for (int k = 0; k < static_cast<int>(oracle.prompts.size()); ++k, ++result.prompts) {
      const double used = oracle_budget_used(score(oracle.prompts[static_cast<std::size_t>(k)]),
                                             oracle.array(k, "logits_f64"), budget);
      result.budget_used = std::max(result.budget_used, used);
      if (used <= 1) continue;
      result.agrees = false;
      result.message = fmt::format("prompt {}: {:.3g} times the budget of {:.3g}", k, used, budget);
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
                        const std::string& computed_by, double budget) {
  const Model<N> model(weights);
  return hold(oracle, computed_by, budget,
              [&](const std::vector<int>& tokens) { return to_logits(model.score({tokens})); });
}

std::vector<OracleResult> verify_case(const OracleCase& oracle) {
  const std::shared_ptr<const Checkpoint> weights = Checkpoint::open(oracle.folder);
  return {hold_model<Float64>(oracle, weights, "reference:double", double_budget(oracle)),
          hold(oracle, "witness", double_budget(oracle),
               [&](const std::vector<int>& tokens) { return witness_logits(*weights, tokens); }),
          hold_model<Float32>(oracle, weights, "reference", float_budget(oracle))};
}

}  // namespace

// Rounding in double, through all layers: 3e-14 of the largest logit was measured, and a wrong
// formula shows above 1e-7.
double double_budget(const OracleCase& oracle) {
  return 1e-10 * std::max(1.0, oracle.measured.largest_logit);
}

// transformers' own float32 error on this case; the order of the sums alone moves it by a small
// factor. Where it is below 1e-6 it is an accident of cancellation and says nothing of the cost.
double float_budget(const OracleCase& oracle) {
  return 6 * std::max(oracle.measured.float32_vs_float64, 1e-6);
}

double oracle_budget_used(const Logits& logits, const ExpectedArray& expected, double budget) {
  const std::vector<std::int64_t> shape{logits.positions, logits.vocab};
  if (expected.shape != shape) return std::numeric_limits<double>::infinity();
  double used = 0;
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    const double share = std::abs(logits.values[i] - expected.values[i]) / budget;
    if (!(share <= used))
      used = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
  return used;
}

std::vector<OracleResult> verify_oracle(const std::atomic<bool>* stop) {
  std::vector<OracleResult> results;
  for (const OracleCase& oracle : load_oracle_cases()) {
    if (stop != nullptr && *stop) break;
    for (OracleResult& result : verify_case(oracle)) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace kvconform
