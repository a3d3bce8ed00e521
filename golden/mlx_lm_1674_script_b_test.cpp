// mlx-lm issue #1674, second script: prefill of 10, 12 decodes, then on a fresh cache chunks of 6,
// 6 and 3, over a window of 8 and six layers of which three are consumers. Its 16 arrays of logits
// were hashed: the first golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "golden/golden.h"
#include "golden/numerics_kinds.h"
#include "golden/oracle_cases.h"
#include "golden/oracle_comparison.h"
#include "reference/model.h"

namespace kvconform {
namespace {

MlxLmCase script_b() {
  return load_mlx_lm_case(golden_dir() / "mlx-lm-1674" / "script-b");
}

template <class N>
double worst_call(const MlxLmCase& mlx) {
  const Model<N> model(Checkpoint::open(mlx.folder));
  auto cache = model.open({.batch = 1, .capacity = 32});
  double worst = 0.0;
  for (std::size_t call = 0; call < mlx.calls.size(); ++call) {
    if (mlx.fresh_cache_before[call]) cache = model.open({.batch = 1, .capacity = 32});
    const Logits logits = to_logits(model.extend(cache, {mlx.calls[call]}));
    worst = std::max(worst, largest_difference(logits.values, mlx.logits[call].values));
  }
  return worst;
}

TEST(ScriptB, AgreesWithEveryCallOfMlxLm) {
  const double float32 = worst_call<Float32>(script_b()), float64 = worst_call<Float64>(script_b());
  // The soft cap of this model is 1, so these are logits below 1 and noise of float32.
  EXPECT_LE(float32, 2e-5);
  EXPECT_LE(float64, 2e-5);
  std::printf("largest difference from mlx-lm: float32 %.2e, double %.2e\n", float32, float64);
}

TEST(ScriptB, IsTheRecipeOfTheFirstGolden) {
  const MlxLmCase mlx = script_b();
  std::vector<std::vector<int>> calls;
  std::vector<bool> fresh;
  bool opened = false;
  for (const Call& call : find_recipe("mlx-lm-1674-script-b").calls) {
    if (call.kind == Call::Kind::extend) {
      calls.push_back(call.tokens.at(0));
      fresh.push_back(opened);
    }
    opened = call.kind == Call::Kind::open;
  }
  EXPECT_EQ(calls, mlx.calls);
  EXPECT_EQ(fresh, mlx.fresh_cache_before);
}

TEST(ScriptB, HasTheApprovedHash) {
  const GoldenResult result =
      verify(find_recipe("mlx-lm-1674-script-b"), numerics_of_subject("reference"));
  EXPECT_EQ(result.status, GoldenStatus::same) << result.message;
}

}  // namespace
}  // namespace kvconform
