// The approved goldens: the float32 reference computes every bit of them, and the double reference
// agrees with the witness on every recipe, so that what was approved was right. (How goldens are
// recorded and approved is tested in golden_workflow_test.cpp.)
#include "golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "golden/oracle_comparison.h"
#include "golden/reference_runner.h"
#include "reference/model.h"
#include "reference/witness.h"

namespace kvconform {
namespace {

TEST(Goldens, AreComputedBitForBitByTheReference) {
  const std::vector<GoldenResult> results = verify_all(reference_runner());
  EXPECT_EQ(results.size(), list_recipes().size());
  EXPECT_GE(results.size(), 7u);
  for (const GoldenResult& result : results) {
    EXPECT_EQ(result.status, GoldenStatus::same) << result.message;
  }
}

TEST(Goldens, AreAllAskedForByARecipeAndNothingIsPending) {
  for (const auto& file : list_prunable()) ADD_FAILURE() << file << " belongs to no recipe";
}

/// What a session holds before each call, so that the witness can recompute it as one sequence.
void follow(std::vector<int>& session, const GoldenCall& call) {
  if (call.kind == GoldenCall::Kind::open) session.clear();
  if (call.kind == GoldenCall::Kind::rewind) session.resize(std::size_t(call.length));
  if (call.kind == GoldenCall::Kind::extend) {
    session.insert(session.end(), call.tokens.begin(), call.tokens.end());
  }
}

Logits last_rows(const Logits& logits, int rows) {
  const auto count = std::ptrdiff_t(rows) * logits.vocab;
  return {rows, logits.vocab, {logits.values.end() - count, logits.values.end()}};
}

/// The worst row of any call of the recipe, double model against witness.
double model_against_witness(const Recipe& recipe) {
  const auto checkpoint = make_checkpoint(recipe);
  const Model<Float64> model(checkpoint);
  auto cache = model.open({.batch = 1, .capacity = 1});
  std::vector<int> session;
  double worst = 0.0;
  for (const GoldenCall& call : recipe.calls) {
    follow(session, call);
    if (call.kind == GoldenCall::Kind::open) {
      cache = model.open({.batch = 1, .capacity = call.length, .margin = call.length});
    }
    if (call.kind == GoldenCall::Kind::rewind) cache.rewind({call.length});
    if (call.tokens.empty()) continue;
    const bool scored = call.kind == GoldenCall::Kind::score;
    const Logits logits =
        to_logits(scored ? model.score({call.tokens}) : model.extend(cache, {call.tokens}));
    const Logits expected = witness_logits(*checkpoint, scored ? call.tokens : session);
    worst = std::max(worst, worst_row(logits, last_rows(expected, logits.positions)));
  }
  return worst;
}

TEST(Goldens, AreRightWhereverModelAndWitnessAgree) {
  double worst = 0.0;
  for (const Recipe& recipe : list_recipes()) {
    const double error = model_against_witness(recipe);
    EXPECT_LE(error, 1e-10) << recipe.name;  // rounding of doubles; measured below 1e-12
    worst = std::max(worst, error);
  }
  std::printf("model against witness, relative to the row's largest logit: %.2e\n", worst);
}

}  // namespace
}  // namespace kvconform
