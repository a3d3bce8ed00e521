// Every planted fault is caught by the property named for it.
#include "properties/faults/faults.h"

#include <gtest/gtest.h>

#include <cctype>

#include "properties/case_judge.h"

namespace kvconform {
namespace {

constexpr int kMostCases = 300;

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsCaughtByTheNamedProperty) {
  const Fault& fault = GetParam();
  const Property& property = find_property(fault.caught_by);
  CaseJudge judge("fault:" + fault.name, "reference:double");
  for (int i = 0; i < kMostCases; ++i) {
    const Verdict verdict = judge.judge(property, property.generate(1, i, CaseSize::smoke), false);
    if (!is_failure(verdict.kind)) continue;
    RecordProperty("caught_at", i);
    return;
  }
  FAIL() << fault.description << ": " << kMostCases << " cases of " << fault.caught_by
         << " saw nothing";
}

std::string sentence(const testing::TestParamInfo<Fault>& info) {
  std::string text = info.param.name + "_is_caught_by_" + info.param.caught_by;
  for (char& c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(all_faults()), sentence);

}  // namespace
}  // namespace kvconform
