// An engine can be wrong in the same way on every path: cached or not, in chunks or at once, it
// then agrees with itself, and no comparison of its paths will ever show it. Goldens and oracle
// data are there for that. Here planted faults of this kind pass the properties that compare a
// subject with itself, and are caught by both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "golden/golden.h"
#include "golden/oracle_check.h"
#include "properties/faults/faults.h"
#include "properties/runner.h"
#include "properties/subject_registry.h"

namespace kvconform {
namespace {

/// Each acts on every path alike; one of each kind of place in the model.
const std::vector<std::string> kConsistent = {
    "soft-cap-applied-twice",     "scores-scaled",
    "rotary-theta-of-other-type", "per-layer-input-in-stream-zero",
    "layer-scalar-missing",       "norm-offset-on-final-norm",
    "router-reads-normed-stream", "altup-router-reads-stream-zero"};

/// What holds a subject against itself alone.
const std::vector<std::string> kSelfConsistency = {
    "cache-independence", "prefill-equals-decode", "chunking",    "batch-rows",
    "rollback",           "fork-and-reorder",      "determinism", "save-and-restore",
    "causality",          "history-independence"};

Numerics reference_with(const std::string& fault) {
  return {"reference-float32", [fault] { return make_subject("fault:" + fault); }};
}

/// The first golden that the fault changes; empty if it changes none.
std::string golden_that_catches(const std::string& fault) {
  for (const Recipe& recipe : list_recipes()) {
    try {
      const auto model = make_model(recipe);
      const auto approved = read_golden(recipe.name, Stage::approved).value();
      const auto computed = compute(recipe, *model, reference_with(fault), false);
      if (hash_of(computed.logits) != approved.find("reference-float32")->sha256) {
        return recipe.name;
      }
    } catch (const SubjectBroken&) {
      return recipe.name;
    } catch (const SubjectRefusal&) {
      return recipe.name;
    }
  }
  return "";
}

/// The first case of the oracle that the subject disagrees with; empty if it agrees with all.
std::string oracle_case_that_catches(const std::string& subject) {
  for (const OracleCase& oracle : load_oracle_cases()) {
    if (!verify_oracle_case(oracle, *make_subject(subject)).agrees) return oracle.name;
  }
  return "";
}

class WrongButConsistent : public testing::TestWithParam<std::string> {};

TEST_P(WrongButConsistent, AgreesWithItselfOnEveryPath) {
  RunOptions options;
  options.subjects = {"fault:" + GetParam()};
  options.properties = kSelfConsistency;
  options.cases = 4;
  options.jobs = 1;
  for (const PropertyResult& result : run_properties(options).results) {
    EXPECT_EQ(result.verdict, VerdictKind::conforms) << result.property << ": " << result.message;
  }
}

TEST_P(WrongButConsistent, IsCaughtByGoldensAndByTheOracle) {
  const std::string golden = golden_that_catches(GetParam());
  const std::string oracle = oracle_case_that_catches("fault:" + GetParam());
  EXPECT_NE(golden, "");
  EXPECT_NE(oracle, "");
  std::printf("%s: golden %s, oracle %s\n", GetParam().c_str(), golden.c_str(), oracle.c_str());
}

INSTANTIATE_TEST_SUITE_P(PlantedFaults, WrongButConsistent, testing::ValuesIn(kConsistent),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Goldens, CatchEveryFaultThatOnlyAnotherImplementationShows) {
  for (const Fault& fault : all_faults()) {
    if (fault.caught_by != "agreement" || fault.deep) continue;
    EXPECT_NE(golden_that_catches(fault.name), "") << fault.name << ": " << fault.description;
  }
}

TEST(Goldens, AndTheOracleAgreeWithTheHealthyReference) {
  EXPECT_EQ(oracle_case_that_catches("reference"), "");
}

}  // namespace
}  // namespace kvconform
