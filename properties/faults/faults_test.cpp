// Planted faults are caught, and the tables say of them what is true. Every fifth one is tried with
// small cases; with KVCONFORM_ALL_FAULTS set, every one at default size.
#include "properties/faults/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "properties/case_judge.h"
#include "properties/faults/fault_matrix.h"
#include "properties/faults/matrix_report.h"

namespace kvconform {
namespace {

constexpr std::size_t kSampled = 5;

bool tries_all() {
  return std::getenv("KVCONFORM_ALL_FAULTS") != nullptr;
}

std::vector<Fault> tried_faults() {
  std::vector<Fault> tried;
  for (std::size_t i = 0; i < all_faults().size(); ++i)
    if (tries_all() || i % kSampled == 0) tried.push_back(all_faults()[i]);
  return tried;
}

FaultResult run(const Fault& fault, CaseSize size) {
  MatrixOptions options;
  options.faults = {fault};
  options.size = size;
  options.jobs = 1;
  return run_fault_matrix(options).at(0);
}

const Fault& fault_named(const std::string& name) {
  return *std::find_if(all_faults().begin(), all_faults().end(),
                       [&](const Fault& f) { return f.name == name; });
}

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsCaught) {
  const Fault& fault = GetParam();
  if (fault.deep) GTEST_SKIP() << "needs the size deep";
  const FaultResult result = run(fault, tries_all() ? CaseSize::standard : CaseSize::smoke);
  ASSERT_TRUE(result.caught()) << fault.description << ": " << result.cases << " cases saw nothing";
  EXPECT_LE(result.cases, 3000);
}

std::string sentence(const testing::TestParamInfo<Fault>& info) {
  std::string text = info.param.name;
  for (char& c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(tried_faults()), sentence);

TEST(Faults, each_has_a_name_of_its_own_a_report_it_is_modelled_on_and_a_class) {
  std::set<std::string> names;
  for (const Fault& fault : all_faults()) {
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
    EXPECT_NE(fault.bugs.find('#'), std::string::npos) << fault.name;
    EXPECT_NO_THROW(find_property(fault.caught_by)) << fault.name;
    EXPECT_FALSE(fault.description.empty() || fault.fault_class.empty()) << fault.name;
  }
  EXPECT_GE(names.size(), 80u);
}

TEST(Faults, a_difference_is_at_the_right_place_only_in_a_layer_where_the_fault_acts) {
  const FaultResult result = run(fault_named("own-keys-without-cache"), CaseSize::smoke);
  ASSERT_TRUE(result.caught() && result.has_place());
  const Catch& caught = result.catches[0];
  EXPECT_TRUE(caught.pinned) << caught.message;
  EXPECT_EQ(caught.place->part, "attention");
  ModelConfig config;  // no layer shares anything: the fault acts nowhere
  config.num_layers = 0;
  EXPECT_FALSE(is_at(result.fault.site, *caught.place, config));
}

TEST(Faults, a_fault_without_a_place_in_the_model_is_not_counted_as_pinned_or_missed) {
  const FaultResult result = run(fault_named("dead-tensors-required"), CaseSize::smoke);
  ASSERT_TRUE(result.caught());
  const MatrixTotals totals = totals_of({result});
  EXPECT_EQ(totals.caught, 1);
  EXPECT_EQ(totals.with_place, 0);
}

TEST(Faults, the_matrix_names_what_was_missed) {
  FaultResult missed;
  missed.fault = all_faults()[0];
  missed.cases = 7;
  const std::string text = matrix_markdown({missed}, {});
  EXPECT_NE(text.find("0 of 1 faults caught"), std::string::npos) << text;
  EXPECT_NE(text.find("**missed**"), std::string::npos) << text;
}

}  // namespace
}  // namespace kvconform
