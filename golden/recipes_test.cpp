// Recipes: those in the tree can be followed, and what cannot be followed is refused by name.
#include "golden/recipes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/scratch_golden_dir.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using Kind = GoldenCall::Kind;

TEST(Recipes, InTheTreeMakeModelsAndKeepTokensInsideTheVocabulary) {
  const std::vector<Recipe> recipes = list_recipes();
  ASSERT_GE(recipes.size(), 7u);
  EXPECT_EQ(recipes.front().name, "mlx-lm-1674-script-b");
  for (const Recipe& recipe : recipes) {
    SCOPED_TRACE(recipe.name);
    const auto checkpoint = make_checkpoint(recipe);
    EXPECT_EQ(find_recipe(recipe.name).fingerprint, recipe.fingerprint);
    for (const GoldenCall& call : recipe.calls) {
      for (int token : call.tokens) EXPECT_LT(token, checkpoint->config().vocab_size);
    }
  }
}

/// recipes.json with one recipe on a stored model; `entry` holds its calls and further fields.
std::string with_recipe(const std::string& entry) {
  return R"({"models": {"stored": {"checkpoint": "mlx-lm-1674/script-b"},
                        "drawn": {"seed": 1, "config": {"vocab_size": 9, "final_logit_softcapping": 30.0}}},
             "call_lists": {"short": ["open", {"extend": [1]}]},
             "recipes": [{"name": "r", "about": "", )" +
         entry + "}]}";
}

std::string refusal_of(const std::string& entry) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json", with_recipe(entry));
  try {
    list_recipes();
    return "was read";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Recipes, DrawTheTokensThatAreGivenAsACount) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json",
                with_recipe(R"("model": "drawn", "calls": [{"score": 50}, {"score": 50}])"));
  const Recipe recipe = find_recipe("r");
  ASSERT_EQ(recipe.calls[0].tokens.size(), 50u);
  EXPECT_NE(recipe.calls[0].tokens, recipe.calls[1].tokens);
  EXPECT_EQ(find_recipe("r").calls[1].tokens, recipe.calls[1].tokens);
  for (int token : recipe.calls[0].tokens) EXPECT_TRUE(token >= 0 && token < 9) << token;
}

TEST(Recipes, GiveASessionTheCapacityThatItsCallsNeed) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json", with_recipe(R"("model": "stored", "calls":
      ["open", {"extend": [1, 2, 3]}, {"rewind": 1}, {"extend": [4, 5, 6, 7]}, "open", {"extend": [1]}])"));
  const Recipe recipe = find_recipe("r");
  EXPECT_EQ(recipe.calls[0].length, 5);
  EXPECT_EQ(recipe.calls[4].length, 1);
}

TEST(Recipes, ReplaceFieldsOfTheirModelNullIncluded) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json",
                with_recipe(R"("model": "drawn", "calls": "short", "dtype": "bfloat16",
      "config": {"final_logit_softcapping": null})"));
  const Recipe recipe = find_recipe("r");
  EXPECT_TRUE(recipe.config->at("final_logit_softcapping").is_null());
  EXPECT_EQ(recipe.config->at("vocab_size"), 9);
  EXPECT_EQ(recipe.weights.dtype, Dtype::bf16);
  EXPECT_EQ(recipe.calls.size(), 2u);
}

TEST(Recipes, ChangeTheirFingerprintWithAnythingThatChangesLogits) {
  const ScratchGoldenDir scratch;
  std::set<std::string> fingerprints;
  const std::string drawn = R"("model": "drawn", "calls": "short")";
  for (const std::string& entry :
       {drawn, drawn + R"(, "seed": 2)", drawn + R"(, "dtype": "float16")",
        drawn + R"(, "config": {"eps": 1})",
        std::string(R"("model": "drawn", "calls": ["open", {"extend": [2]}])"),
        std::string(R"("model": "drawn", "calls": [{"score": [1]}])"),
        std::string(R"("model": "stored", "calls": "short")")}) {
    scratch.write("recipes.json", with_recipe(entry));
    EXPECT_TRUE(fingerprints.insert(find_recipe("r").fingerprint).second) << entry;
  }
}

TEST(Recipes, AreRefusedByNameWhenTheyCannotBeFollowed) {
  const auto expect = [](const std::string& entry, const std::string& part) {
    const std::string refusal = refusal_of(entry);
    EXPECT_NE(refusal.find("KV3005: recipe"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
  };
  expect(R"("model": "none", "calls": "short")", "no model \"none\"");
  expect(R"("model": "stored", "calls": "long")", "no call list long");
  expect(R"("model": "stored", "calls": [])", "no calls");
  expect(R"("model": "stored", "calls": "short", "sead": 1)", "unknown field sead");
  expect(R"("model": "stored", "calls": "short", "seed": 1)", "seed of a stored model");
  expect(R"("model": "drawn", "calls": "short", "dtype": "int8")", "dtype int8");
  expect(R"("model": "stored", "calls": [{"extend": [1]}])", "extend before open");
  expect(R"("model": "stored", "calls": ["open", {"extend": [1]}, {"rewind": 2}])", "rewind to 2");
  expect(R"("model": "stored", "calls": [{"score": 0}])", "cannot draw 0");
  expect(R"("model": "stored", "calls": [{"fork": 1}])", "unknown field fork");
  expect(R"("model": "stored")", "calls");
}

TEST(Recipes, AreNotFoundUnderAnotherName) {
  try {
    find_recipe("no-such-golden");
    FAIL() << "was found";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "KV3004");
  }
}

}  // namespace
}  // namespace kvconform
