// The whole check must agree today, and must not agree with numbers that are not the model's.
#include "golden/oracle_check.h"

#include <gtest/gtest.h>

namespace kvconform {
namespace {

TEST(OracleCheck, model_and_witness_agree_with_every_stored_case) {
  const std::vector<OracleResult> results = verify_oracle();
  EXPECT_EQ(results.size(), 3 * load_oracle_cases().size());
  for (const OracleResult& result : results)
    EXPECT_TRUE(result.agrees) << result.name << ", " << result.computed_by << ": "
                               << result.message;
}

TEST(OracleCheck, other_logits_than_the_stored_ones_are_found_in_all_three) {
  OracleCase oracle = load_oracle_cases().front();
  oracle.expected.at("1.logits_f64").values.back() += 0.01;
  const std::vector<OracleResult> results = verify_oracle_case(oracle);
  ASSERT_EQ(results.size(), 3u);
  for (const OracleResult& result : results) {
    EXPECT_FALSE(result.agrees) << result.computed_by;
    EXPECT_GT(result.budget_used, 1) << result.computed_by;
  }
}

}  // namespace
}  // namespace kvconform
