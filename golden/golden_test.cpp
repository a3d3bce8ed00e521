// The approved goldens: every kind of numerics computes every bit of them, what is kept along the
// way is up to date, and the double reference agrees with the witness on every recipe, so that what
// was approved was right. (How goldens are recorded and approved is tested in
// golden_workflow_test.cpp.)
#include "golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "golden/numerics_kinds.h"
#include "golden/second_opinion.h"
#include "properties/subject_registry.h"

namespace kvconform {
namespace {

TEST(Goldens, AreComputedBitForBitByEveryKindOfNumerics) {
  const std::vector<GoldenResult> results = verify_all(golden_numerics());
  EXPECT_EQ(results.size(), 2 * list_recipes().size());
  EXPECT_GE(list_recipes().size(), 30u);
  for (const GoldenResult& result : results) {
    EXPECT_EQ(result.status, GoldenStatus::same) << result.message;
  }
}

TEST(Goldens, AreAllAskedForByARecipeAndNothingIsPending) {
  for (const auto& file : list_prunable()) ADD_FAILURE() << file << " belongs to no recipe";
}

/// A change that leaves the logits alone leaves `verify` green; hashes along the way that are not
/// current would lead the next explanation astray.
TEST(Goldens, KeepWaypointsThatAreCurrent) {
  for (const Recipe& recipe : list_recipes()) {
    SCOPED_TRACE(recipe.name + ": record and approve it again");
    const auto model = make_model(recipe);
    const Waypoints now = waypoints_of(recipe, *model->checkpoint());
    const ApprovedGolden approved = read_golden(recipe.name, Stage::approved).value();
    EXPECT_EQ(approved.way.calls, now.calls);
    EXPECT_EQ(approved.way.config, now.config);
    EXPECT_EQ(approved.way.weights_sha256, now.weights_sha256);
    EXPECT_EQ(approved.way.tensor_hashes, now.tensor_hashes);
    for (const Numerics& numerics : golden_numerics()) {
      const Computation traced = compute(recipe, *model, numerics, true);
      const ApprovedNumerics* kept = approved.find(numerics.kind);
      ASSERT_NE(kept, nullptr);
      EXPECT_EQ(kept->sha256, hash_of(traced.logits)) << "with a trace";
      EXPECT_EQ(kept->stages.stages, traced.stages.stages) << numerics.kind;
      EXPECT_EQ(kept->stages.calls, traced.stages.calls) << numerics.kind;
    }
  }
}

TEST(Goldens, DoNotDependOnDeadTensors) {
  for (const std::string family : {"gemma3n", "gemma4"}) {
    const auto absent = read_golden(family + "-script-b", Stage::approved).value();
    for (const char* state : {"-dead-tensors", "-dead-tensors-nan"}) {
      const auto present = read_golden(family + state, Stage::approved).value();
      EXPECT_NE(present.way.weights_sha256, absent.way.weights_sha256);
      for (const ApprovedNumerics& numerics : absent.numerics) {
        EXPECT_EQ(present.find(numerics.kind)->sha256, numerics.sha256) << family << state;
      }
    }
  }
}

TEST(Goldens, AreRightWhereverModelAndWitnessAgree) {
  const Numerics in_double = {"reference-float64", [] { return make_subject("reference:double"); }};
  double worst = 0.0;
  for (const Recipe& recipe : list_recipes()) {
    const auto model = make_model(recipe);
    const Computation computed = compute(recipe, *model, in_double, false);
    const double error = distance_from_witness(recipe, *model->checkpoint(), computed.logits);
    EXPECT_LE(error, 1e-10) << recipe.name;  // rounding of doubles; measured below 1e-12
    worst = std::max(worst, error);
  }
  std::printf("model against witness, relative to the row's largest logit: %.2e\n", worst);
}

}  // namespace
}  // namespace kvconform
