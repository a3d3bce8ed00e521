// The witness against what other software computed: Hugging Face transformers in float64
// (golden/oracle, 49 models) and mlx-lm in float32 (golden/mlx-lm-1674, 3 models). See the READMEs
// there for the arrays. A new oracle case is picked up by being there.
#include "reference/witness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <span>

#include "golden/oracle_cases.h"
#include "golden/oracle_comparison.h"
#include "reference/error.h"
#include "reference/witness_parts.h"

namespace kvconform {
namespace {

int arg_max_of_last_row(const Logits& logits) {
  const double* row = logits.row(logits.positions - 1);
  return int(std::max_element(row, row + logits.vocab) - row);
}

TEST(Witness, AgreesWithTransformersInDoubleOnEveryPrompt) {
  double worst = 0.0;
  for (const OracleCase& oracle : load_oracle_cases()) {
    const auto checkpoint = Checkpoint::open(oracle.folder);
    for (int k = 0; k < int(oracle.prompts.size()); ++k) {
      const Logits logits = witness_logits(*checkpoint, oracle.prompts[k]);
      const double error = worst_row(logits, oracle.array(k, "logits_f64"));
      // Measured: 4e-14. Two double computations of the same formulas; anything but rounding is
      // above 1e-7.
      EXPECT_LE(error, 1e-10) << oracle.name << ", prompt " << k;
      worst = std::max(worst, error);
    }
  }
  std::printf("largest difference relative to the row's largest logit: %.2e\n", worst);
}

TEST(Witness, AgreesWithEveryIntermediateArrayOfTransformers) {
  double worst = 0.0;
  for (const OracleCase& oracle : load_oracle_cases()) {
    Trace trace;
    witness_logits(*Checkpoint::open(oracle.folder), oracle.prompts[oracle.traced_prompt], &trace);
    const TraceComparison comparison = compare_trace(trace, oracle);
    // The arrays are float32 results and carry that precision's noise through all layers.
    EXPECT_LE(comparison.worst, 1e-4) << oracle.name << ", " << comparison.where;
    EXPECT_TRUE(comparison.missing.empty()) << oracle.name << " has no " << comparison.missing[0];
    worst = std::max(worst, comparison.worst);
  }
  std::printf("largest difference relative to the array's largest magnitude: %.2e\n", worst);
}

TEST(Witness, ChoosesTheSameGreedyTokens) {
  for (const OracleCase& oracle : load_oracle_cases()) {
    const auto checkpoint = Checkpoint::open(oracle.folder);
    std::vector<int> tokens = oracle.prompts[oracle.greedy.prompt], chosen;
    for (std::size_t step = 0; step < oracle.greedy.tokens.size(); ++step) {
      chosen.push_back(arg_max_of_last_row(witness_logits(*checkpoint, tokens)));
      tokens.push_back(chosen.back());
    }
    EXPECT_EQ(chosen, oracle.greedy.tokens) << oracle.name;
  }
}

TEST(Witness, AgreesWithTheCachedPathOfMlxLm) {
  double worst = 0.0;
  for (const MlxLmCase& mlx : load_mlx_lm_cases()) {
    const auto checkpoint = Checkpoint::open(mlx.folder);
    std::vector<int> tokens;
    for (std::size_t call = 0; call < mlx.calls.size(); ++call) {
      if (mlx.fresh_cache_before[call]) tokens.clear();
      tokens.insert(tokens.end(), mlx.calls[call].begin(), mlx.calls[call].end());
      const Logits all = witness_logits(*checkpoint, tokens);
      const auto& expected = mlx.logits[call].values;
      ASSERT_LE(expected.size(), all.values.size());
      const auto last_rows = std::span(all.values).last(expected.size());
      const double error = largest_difference(last_rows, expected);
      // Measured: 6e-6 on logits below 1 (script b) and 10 (script a), float32 noise of mlx.
      EXPECT_LE(error, 2e-5) << mlx.name << ", call " << call;
      worst = std::max(worst, error);
    }
  }
  std::printf("largest difference: %.2e\n", worst);
}

TEST(Witness, RefusesTokensOutsideTheVocabularyAndTakesNone) {
  const auto folder = golden_dir() / "oracle" / "gemma4-base";
  const auto checkpoint = Checkpoint::open(folder);
  EXPECT_EQ(witness_logits(*checkpoint, {}).positions, 0);
  EXPECT_THROW(witness_logits(*checkpoint, {-1}), Error);
  EXPECT_THROW(witness_logits(*checkpoint, {checkpoint->config().vocab_size}), Error);
}

TEST(WitnessQuantile, HasThePublishedValuesAndIsOdd) {
  // Abramowitz and Stegun, table 26.5; the tails from R's qnorm.
  EXPECT_NEAR(witness::normal_quantile(0.95), 1.6448536269514722, 1e-14);
  EXPECT_NEAR(witness::normal_quantile(0.5), 0.0, 1e-15);
  // Half an ulp of p there is 1.1e-11 of z: 2^-54 / φ(4.75).
  EXPECT_NEAR(witness::normal_quantile(0.999999), 4.753424308822899, 1.2e-11);
  EXPECT_NEAR(witness::normal_quantile(1e-300), -37.0471, 1e-4);
  for (double p : {0.01, 0.1, 0.25, 0.4}) {
    EXPECT_NEAR(witness::normal_quantile(p), -witness::normal_quantile(1.0 - p), 1e-14) << p;
  }
}

TEST(WitnessMask, ShowsAWindowItsOwnTokenIncluded) {
  LayerPlan plan;
  plan.type = AttentionType::sliding;
  plan.window = 2;
  const witness::Matrix seen = witness::mask(plan, false, 4);
  for (int q = 0; q < 4; ++q) {
    for (int k = 0; k < 4; ++k) EXPECT_EQ(seen(q, k) == 0.0, k == q || k == q - 1) << q << ' ' << k;
  }
}

TEST(WitnessRouter, BreaksTiesByTheLowerIndex) {
  // A zero hidden state makes all experts equal; of four, the first two are chosen, a half each.
  const auto checkpoint = Checkpoint::open(golden_dir() / "oracle" / "gemma4-moe");
  const witness::Pass pass{*checkpoint, {}, {}, nullptr};
  const witness::Matrix zero = witness::Matrix::Zero(1, checkpoint->config().hidden_size);
  const witness::Matrix weights = witness::router_weights(pass, 0, zero);
  const witness::Row scale = witness::widen_row(pass.weights(0).router_per_expert_scale);
  EXPECT_DOUBLE_EQ(weights(0, 0), 0.5 * scale[0]);
  EXPECT_DOUBLE_EQ(weights(0, 1), 0.5 * scale[1]);
  EXPECT_EQ(weights(0, 2), 0.0);
  EXPECT_EQ(weights(0, 3), 0.0);
}

}  // namespace
}  // namespace kvconform
