// Recipes: those in the tree can be followed, and what cannot be followed is refused by name.
#include "golden/recipes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/scratch_golden_dir.h"
#include "reference/error.h"

namespace kvconform {
namespace {

TEST(Recipes, InTheTreeMakeModelsAndKeepTokensInsideTheVocabulary) {
  const std::vector<Recipe> recipes = list_recipes();
  ASSERT_GE(recipes.size(), 30u);
  EXPECT_EQ(recipes.front().name, "mlx-lm-1674-script-b");
  for (const Recipe& recipe : recipes) {
    SCOPED_TRACE(recipe.name);
    const auto checkpoint = make_model(recipe)->checkpoint();
    EXPECT_EQ(find_recipe(recipe.name).fingerprint, recipe.fingerprint);
    for (const Call& call : recipe.calls) {
      for (const auto& row : call.tokens) {
        for (int token : row) EXPECT_LT(token, checkpoint->config().vocab_size);
      }
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
  ASSERT_EQ(recipe.calls[0].tokens.at(0).size(), 50u);
  EXPECT_NE(recipe.calls[0].tokens, recipe.calls[1].tokens);
  EXPECT_EQ(find_recipe("r").calls[1].tokens, recipe.calls[1].tokens);
  for (int token : recipe.calls[0].tokens[0]) EXPECT_TRUE(token >= 0 && token < 9) << token;
}

TEST(Recipes, GiveASessionTheCapacityThatItsCallsNeed) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json", with_recipe(R"("model": "stored", "calls":
      ["open", {"extend": [1, 2, 3]}, {"rewind": 1}, {"extend": [4, 5, 6, 7]}, "open", {"extend": [1]}])"));
  const Recipe recipe = find_recipe("r");
  EXPECT_EQ(recipe.calls[0].capacity, 5);
  EXPECT_EQ(recipe.calls[4].capacity, 1);
}

TEST(Recipes, NumberSessionsAndGiveAForkTheRoomItNeeds) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json", with_recipe(R"("model": "stored", "calls":
      [{"open": 2}, {"extend": [[1, 2], []]}, {"fork": 0, "session": 7}, {"extend": {"draw": [0, 9]}, "session": 7},
       {"reorder": [1, 1], "session": 7}, {"save": true, "session": 7}, {"restore": 7},
       {"rewind": [3, 0]}, "open", {"extend": [5]}])"));
  const std::vector<Call> calls = find_recipe("r").calls;
  ASSERT_EQ(calls.size(), 10u);
  EXPECT_EQ(calls[0].capacity, 9);
  EXPECT_EQ(calls[1].tokens, (TokenRows{{1, 2}, {}}));
  EXPECT_EQ(calls[2].kind, Call::Kind::fork);
  EXPECT_EQ(calls[2].from, calls[0].session);
  EXPECT_NE(calls[2].session, calls[0].session);
  EXPECT_EQ(calls[3].session, calls[2].session);
  EXPECT_EQ(calls[3].tokens.at(1).size(), 9u);
  EXPECT_EQ(calls[4].numbers, (std::vector<int>{1, 1}));
  EXPECT_EQ(calls[6].from, calls[5].session);
  EXPECT_EQ(calls[7].session, calls[6].session);  // session 0 is the restored one by now
  EXPECT_NE(calls[9].session, calls[7].session);
  EXPECT_EQ(calls[8].capacity, 1);
}

TEST(Recipes, LeaveOutFieldsOfTheirModel) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json",
                with_recipe(R"("model": "drawn", "calls": "short", "dead_tensors": "nan",
      "without": ["final_logit_softcapping"])"));
  const Recipe recipe = find_recipe("r");
  EXPECT_EQ(nlohmann::json::parse(recipe.model.config_text).size(), 1u);
  EXPECT_EQ(recipe.model.weights.dead_tensors, DeadTensors::nan);
}

TEST(Recipes, ReplaceFieldsOfTheirModelNullIncluded) {
  const ScratchGoldenDir scratch;
  scratch.write("recipes.json",
                with_recipe(R"("model": "drawn", "calls": "short", "dtype": "bfloat16",
      "config": {"final_logit_softcapping": null})"));
  const Recipe recipe = find_recipe("r");
  const auto config = nlohmann::json::parse(recipe.model.config_text);
  EXPECT_TRUE(config.at("final_logit_softcapping").is_null());
  EXPECT_EQ(config.at("vocab_size"), 9);
  EXPECT_EQ(recipe.model.weights.dtype, Dtype::bf16);
  EXPECT_EQ(recipe.calls.size(), 2u);
}

TEST(Recipes, ChangeTheirFingerprintWithAnythingThatChangesLogits) {
  const ScratchGoldenDir scratch;
  std::set<std::string> fingerprints;
  const std::string drawn = R"("model": "drawn", "calls": "short")";
  for (const std::string& entry :
       {drawn, drawn + R"(, "seed": 2)", drawn + R"(, "dtype": "float16")",
        drawn + R"(, "config": {"eps": 1})", drawn + R"(, "dead_tensors": "random")",
        drawn + R"(, "without": ["final_logit_softcapping"])",
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
  expect(R"("model": "stored", "calls": ["open", {"extend": [1]}, {"rewind": 2}])",
         "row 0 cannot become 2 long");
  expect(R"("model": "stored", "calls": ["open", {"extend": [[1], [2]]}])", "wrong number of rows");
  expect(R"("model": "stored", "calls": ["open", {"reorder": [1]}])", "there is no row 1");
  expect(R"("model": "stored", "calls": [{"restore": 3}])", "restore before open of session 3");
  expect(R"("model": "stored", "calls": ["open", {"restore": 0}])", "never saved");
  expect(R"("model": "stored", "calls": ["open", {"extend": {"tokens": 3}}])", "are no tokens");
  expect(R"("model": "stored", "calls": ["open", {"extend": [1], "rewind": 0}])", "not one call");
  expect(R"("model": "drawn", "calls": "short", "dead_tensors": "zero")", "dead_tensors zero");
  expect(R"("model": "stored", "calls": "short", "dead_tensors": "nan")", "of a stored model");
  expect(R"("model": "stored", "calls": [{"score": 0}])", "cannot draw 0");
  expect(R"("model": "stored", "calls": [{"drop": 1}])", "unknown field drop");
  expect(R"("model": "stored", "calls": [{"fork": 1}])", "fork before open of session 1");
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
