// The oracle data in the tree: all there, and every case has the arrays that its README promises.
#include "golden/oracle_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "reference/error.h"

namespace kvconform {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(OracleCases, AreAllFound) {
  const std::vector<OracleCase> cases = load_oracle_cases();
  EXPECT_EQ(cases.size(), 49u);
  EXPECT_EQ(cases.front().name, "gemma3n-altup-2");
  EXPECT_EQ(cases.back().name, "gemma4-window4-sliding-first");
}

TEST(OracleCases, HaveLogitsOfEveryPromptInBothPrecisions) {
  for (const OracleCase& oracle : load_oracle_cases()) {
    SCOPED_TRACE(oracle.name);
    const std::int64_t vocab = oracle.array("greedy.logits").shape.at(1);
    for (int k = 0; k < int(oracle.prompts.size()); ++k) {
      const Shape shape{std::int64_t(oracle.prompts[k].size()), vocab};
      EXPECT_EQ(oracle.array(k, "logits").shape, shape);
      EXPECT_EQ(oracle.array(k, "logits_f64").shape, shape);
      EXPECT_EQ(oracle.array(k, "logits_f64").dtype, "F64");
    }
    EXPECT_EQ(oracle.array("greedy.logits").shape.at(0), std::int64_t(oracle.greedy.tokens.size()));
    EXPECT_EQ(oracle.folder.filename(), oracle.name);
  }
}

TEST(OracleCases, SayWhichOfThemIsNotCausal) {
  for (const OracleCase& oracle : load_oracle_cases()) {
    EXPECT_EQ(oracle.cached, oracle.name != "gemma4-bidirectional-all") << oracle.name;
  }
}

TEST(MlxLmCases, HaveLogitsOfEveryCall) {
  const std::vector<MlxLmCase> cases = load_mlx_lm_cases();
  ASSERT_EQ(cases.size(), 3u);
  for (const MlxLmCase& mlx : cases) {
    ASSERT_EQ(mlx.logits.size(), mlx.calls.size());
    for (std::size_t i = 0; i < mlx.calls.size(); ++i) {
      EXPECT_EQ(mlx.logits[i].shape, (Shape{std::int64_t(mlx.calls[i].size()), 64})) << mlx.name;
    }
  }
  const MlxLmCase& script_b = cases.back();
  EXPECT_EQ(script_b.name, "script-b");
  EXPECT_EQ(script_b.calls.size(), 16u);
  EXPECT_TRUE(script_b.fresh_cache_before[0] && script_b.fresh_cache_before[13]);
  EXPECT_FALSE(script_b.fresh_cache_before[1] || script_b.fresh_cache_before[14]);
}

TEST(GoldenFolder, IsThatOfTheEnvironmentWhereSet) {
  setenv("KVCONFORM_GOLDEN_DIR", "/nowhere/at/all", 1);
  try {
    load_oracle_cases();
    FAIL() << "was found";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "KV3001");
    EXPECT_NE(std::string(e.what()).find("/nowhere/at/all"), std::string::npos);
  }
  unsetenv("KVCONFORM_GOLDEN_DIR");
  EXPECT_FALSE(golden_dir().empty());
}

}  // namespace
}  // namespace kvconform
