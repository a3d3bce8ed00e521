// The reference, in each of its precisions, keeps every property: one test a property and subject.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "properties/case_judge.h"
#include "properties/runner.h"

namespace kvconform {
namespace {

constexpr int kCases = 25;

class Healthy : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Healthy, KeepsTheProperty) {
  const auto& [subject, name] = GetParam();
  const Property& property = find_property(name);
  CaseJudge judge(subject, "reference:double");
  int compared = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case test_case = property.generate(11, i, CaseSize::smoke);
    const Verdict verdict = judge.judge(property, test_case, false);
    EXPECT_FALSE(is_failure(verdict.kind)) << property.sentence() << "\n"
                                           << verdict.message << "\n"
                                           << to_json(test_case);
    compared += was_compared(verdict.kind);
  }
  EXPECT_GT(compared, kCases / 2) << "too few cases decided";
}

std::vector<std::string> property_names() {
  std::vector<std::string> names;
  for (const auto& property : all_properties()) names.push_back(property->name());
  return names;
}

std::string sentence(const testing::TestParamInfo<std::tuple<std::string, std::string>>& info) {
  std::string text = std::get<0>(info.param) + "_keeps_" + std::get<1>(info.param);
  for (char& c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(TheReference, Healthy,
                         testing::Combine(testing::Values("reference", "reference:double",
                                                          "reference:bfloat16",
                                                          "reference:float16"),
                                          testing::ValuesIn(property_names())),
                         sentence);

}  // namespace
}  // namespace kvconform
