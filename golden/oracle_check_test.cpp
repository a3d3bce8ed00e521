// The comparer of oracle data must pass on a proven-small difference only, and the whole check must
// agree today.
#include "golden/oracle_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvconform {
namespace {

ExpectedArray stored(std::vector<double> values) {
  return {"F64", {1, static_cast<std::int64_t>(values.size())}, std::move(values)};
}

Logits computed(std::vector<double> values) {
  Logits logits;
  logits.positions = 1;
  logits.vocab = static_cast<int>(values.size());
  logits.values = std::move(values);
  return logits;
}

TEST(OracleComparer, only_a_proven_small_difference_is_within_the_budget) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DOUBLE_EQ(oracle_budget_used(computed({1, -2}), stored({1, -2.5}), 1), 0.5);
  EXPECT_DOUBLE_EQ(oracle_budget_used(computed({-1, -2}), stored({-1, -4}), 1), 2);
  EXPECT_TRUE(std::isinf(oracle_budget_used(computed({1, nan}), stored({1, 2}), 1)));
  EXPECT_TRUE(std::isinf(oracle_budget_used(computed({nan, 1}), stored({1, 1}), 1)));
  EXPECT_TRUE(std::isinf(oracle_budget_used(computed({1}), stored({1, 2}), 1)));
}

TEST(OracleCheck, model_and_witness_agree_with_every_stored_case) {
  const std::vector<OracleResult> results = verify_oracle();
  EXPECT_EQ(results.size(), 3 * load_oracle_cases().size());
  for (const OracleResult& result : results)
    EXPECT_TRUE(result.agrees) << result.name << ", " << result.computed_by << ": "
                               << result.message;
}

}  // namespace
}  // namespace kvconform
