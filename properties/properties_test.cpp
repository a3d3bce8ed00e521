// Every built-in subject keeps every property: a test of its own for each pair, named as a
// sentence. GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX split the cases of every test, not the tests:
// ctest runs each test as a process of its own, and GoogleTest would give all of them to the first
// shard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "properties/case_judge.h"
#include "properties/runner.h"
#include "properties/subject_registry.h"
#include "reference/error.h"

namespace kvconform {
namespace {

constexpr int kCases = 30;
constexpr int kEmulatedCases = 3;  // fibers are slow; `check` runs more of them

struct Split {
  int index = 0, total = 1;
};

int number_of(const char* variable, int fallback) {
  const char* value = std::getenv(variable);
  return value == nullptr ? fallback : std::atoi(value);
}

/// Taken from the environment, so that GoogleTest does not split once more.
Split take_split() {
  const Split split{number_of("GTEST_SHARD_INDEX", 0), number_of("GTEST_TOTAL_SHARDS", 1)};
  unsetenv("GTEST_SHARD_INDEX");
  unsetenv("GTEST_TOTAL_SHARDS");
  return split;
}

class Keeps : public testing::Test {
 public:
  Keeps(std::string subject, const Property& property, Split split)
      : subject_(std::move(subject)), property_(property), split_(split) {}

  void TestBody() override {
    std::unique_ptr<CaseJudge> judge;
    try {
      judge = std::make_unique<CaseJudge>(subject_, "reference:double");
    } catch (const Error& e) {
      if (e.id() != "KV2120" && e.id() != "KV2121") throw;  // a GPU that is not there
      GTEST_SKIP() << e.what();
    }
    judge_cases(*judge);
  }

 private:
  void judge_cases(CaseJudge& judge) {
    const int cases = judge.info().emulated ? kEmulatedCases : kCases;
    const std::string unmet = unmet_needs(property_, judge.info());
    if (!unmet.empty()) GTEST_SKIP() << subject_ << " lacks " << unmet;
    int compared = 0, judged = 0, applicable = 0;
    for (int i = split_.index; i < cases; i += split_.total, ++judged) {
      const Case test_case = property_.generate(11, i, CaseSize::smoke);
      const Verdict verdict = judge.judge(property_, test_case, false);
      EXPECT_FALSE(is_failure(verdict.kind)) << property_.sentence() << "\n"
                                             << verdict.message << "\n"
                                             << to_json(test_case);
      compared += was_compared(verdict.kind);
      applicable += verdict.kind != VerdictKind::not_applicable;
    }
    RecordProperty("cases", judged);
    if (applicable == 0) GTEST_SKIP() << subject_ << " lacks what these cases need";
    if (split_.total == 1) {
      EXPECT_GT(compared, cases / 2) << "too few cases decided";
    }
  }

  std::string subject_;
  const Property& property_;
  Split split_;
};

/// Letters, digits and single underscores: what names of tests are made of.
std::string words(const std::string& text) {
  std::string name;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

/// Names with a blank to fill in ("fault:NAME") are no subjects yet, and two names are others for
/// what is in the list already.
std::vector<std::string> built_in_subjects() {
  std::vector<std::string> names;
  for (const SubjectEntry& entry : known_subjects()) {
    if (entry.name == "cuda" || entry.name == "cuda:emulated=float32") continue;
    if (std::none_of(entry.name.begin(), entry.name.end(), [](char c) { return std::isupper(c); }))
      names.push_back(entry.name);
  }
  return names;
}

void register_tests(Split split) {
  for (const std::string& subject : built_in_subjects()) {
    for (const auto& property : all_properties()) {
      const std::string name =
          "keeps_" + words(property->name()) + "_that_is_" + words(property->sentence());
      testing::RegisterTest(words(subject).c_str(), name.c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [subject, &property = *property, split]() -> Keeps* {
                              return new Keeps(subject, property, split);
                            });
    }
  }
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  const kvconform::Split split = kvconform::take_split();
  if (split.total < 1 || split.index < 0 || split.index >= split.total) {
    std::fprintf(stderr, "GTEST_SHARD_INDEX %d of %d does not exist\n", split.index, split.total);
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  kvconform::register_tests(split);
  return RUN_ALL_TESTS();
}
