// Generated cases are valid by construction, reach the hard classes, and shrink to valid ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "properties/generators/session_life.h"
#include "properties/history.h"
#include "properties/property.h"
#include "properties/requirements.h"
#include "properties/shrinking.h"
#include "reference/layer_plan.h"
#include "reference/random.h"

namespace kvconform {
namespace {

constexpr CaseSize kSizes[] = {CaseSize::smoke, CaseSize::standard, CaseSize::emulated,
                               CaseSize::deep};

/// Throws if the case is not valid.
void check_valid(const Case& test_case) {
  plan_layers(config_of(test_case.model));
  RowLedger ledger;
  for (const Call& call : test_case.calls) ledger.apply(call);
}

TEST(Generators, EveryCaseHasAValidPlanAndCallsThatMakeSense) {
  for (const auto& property : all_properties()) {
    for (CaseSize size : kSizes) {
      for (int i = 0; i < 100; ++i) {
        EXPECT_NO_THROW(check_valid(property->generate(1, i, size)))
            << property->name() << " case " << i;
      }
    }
  }
}

TEST(Generators, ACaseIsAFunctionOfSeedPropertyAndIndex) {
  const auto& properties = all_properties();
  const Case once = properties[0]->generate(3, 14, CaseSize::standard);
  EXPECT_EQ(to_json(once), to_json(properties[0]->generate(3, 14, CaseSize::standard)));
  EXPECT_NE(to_json(once), to_json(properties[0]->generate(4, 14, CaseSize::standard)));
  EXPECT_NE(to_json(once), to_json(properties[0]->generate(3, 15, CaseSize::standard)));
}

TEST(Generators, TheSameCasesComeOutOfEveryCompilerAndMachine) {
  std::uint64_t hash = 0;
  for (const auto& property : all_properties()) {
    for (int i = 0; i < 20; ++i) {
      hash = stream_key(hash, to_json(property->generate(1, i, CaseSize::standard)).dump());
    }
  }
  // A change of the generators changes this number: then it is a new baseline, to be written here.
  EXPECT_EQ(hash, 11429094232720344524u) << "hash of generated cases: " << hash;
}

SubjectInfo subject_with(std::set<std::string> capabilities, int margin) {
  SubjectInfo info;
  info.families = {"gemma3n_text", "gemma4_text"};
  info.capabilities = std::move(capabilities);
  info.margin = margin;
  return info;
}

bool can_be_compared(const Property& property, const Case& test_case, const SubjectInfo& info) {
  const ModelConfig config = config_of(test_case.model);
  const std::vector<std::string> needs = property.needs();
  return std::all_of(needs.begin(), needs.end(),
                     [&](const std::string& n) { return info.capabilities.count(n) > 0; }) &&
         missing_for(test_case, config, info).empty() &&
         needed_margin(test_case, config) <= info.margin;
}

/// What the required minimum rests on, for subjects that can do everything, little, and nothing but
/// score.
TEST(Generators, EveryHardClassIsReachedAsOftenAsItIsSaidToBeWhateverASubjectCanDo) {
  const std::set<std::string> all = {"score",  "cache",  "chunked",     "batch",
                                     "ragged", "rewind", "fork",        "reorder",
                                     "save",   "start",  "sharing_map", "trace"};
  const SubjectInfo subjects[] = {
      subject_with(all, SessionLives::kRewindMargin), subject_with(all, 0),
      subject_with({"score", "cache", "chunked", "batch", "trace"}, 0),
      subject_with({"score", "cache", "chunked"}, 0), subject_with({"score"}, 0)};
  std::map<std::string, int> met[std::size(subjects)];
  int compared[std::size(subjects)] = {};
  for (const auto& property : all_properties()) {
    for (int i = 0; i < 300; ++i) {
      const CaseSize size = i % 2 == 0 ? CaseSize::standard : CaseSize::smoke;
      const Case test_case = property->generate(2, i, size);
      const auto classes = coverage_classes(test_case, config_of(test_case.model));
      for (const auto& name : classes) EXPECT_TRUE(all_coverage_classes().count(name)) << name;
      for (std::size_t s = 0; s < std::size(subjects); ++s) {
        if (!can_be_compared(*property, test_case, subjects[s])) continue;
        ++compared[s];
        for (const auto& name : classes) ++met[s][name];
      }
    }
  }
  for (std::size_t s = 0; s < std::size(subjects); ++s) {
    for (const std::string& name : all_coverage_classes()) {
      if (!can_meet(name, subjects[s])) continue;
      EXPECT_GE(met[s][name] * one_case_in(name), compared[s])
          << name << ": " << met[s][name] << " of " << compared[s] << " cases of subject " << s;
    }
  }
}

TEST(Generators, ASubjectIsAskedForTheHardClassesItCanMeet) {
  SubjectInfo info;
  info.families = {"gemma4_text"};
  info.capabilities = {"cache", "rewind"};
  EXPECT_TRUE(can_meet("gemma4: rewind", info));
  EXPECT_FALSE(can_meet("gemma3n: rewind", info));
  EXPECT_FALSE(can_meet("gemma4: fork, then both go on", info));
  EXPECT_FALSE(can_meet("gemma4: rewind past the wrap", info)) << "it has no margin";
  info.margin = 8;
  EXPECT_TRUE(can_meet("gemma4: rewind past the wrap", info));
}

TEST(Shrinking, EverySimplificationIsValidAndAnotherCase) {
  for (const auto& property : all_properties()) {
    for (int i = 0; i < 4; ++i) {
      const Case test_case = property->generate(5, i, CaseSize::standard);
      for (const Case& simpler : simpler_cases(test_case)) {
        EXPECT_NO_THROW(check_valid(simpler)) << to_json(simpler);
        EXPECT_NE(to_json(simpler), to_json(test_case));
      }
    }
  }
}

TEST(Shrinking, ACaseThatAlwaysFailsShrinksToNextToNothing) {
  Case test_case = all_properties()[0]->generate(5, 1, CaseSize::standard);
  for (int steps = 0;; ++steps) {
    ASSERT_LT(steps, 500) << "simplification does not end";
    const std::vector<Case> simpler = simpler_cases(test_case);
    if (simpler.empty()) break;
    test_case = simpler.front();
  }
  const CaseExtent extent = extent_of(test_case);
  EXPECT_LE(extent.layers, 2);
  EXPECT_LE(extent.prompt, 1);
  EXPECT_LE(extent.calls, 2);
}

}  // namespace
}  // namespace kvconform
