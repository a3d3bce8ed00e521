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
#include "properties/faults/property_shares.h"
#include "properties/subjects/kernel_trial.h"

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
    if (fault.caught_by != kRaceChecker) {
      EXPECT_NO_THROW(find_property(fault.caught_by)) << fault.name;
    }
    EXPECT_FALSE(fault.description.empty() || fault.fault_class.empty()) << fault.name;
  }
  EXPECT_GE(names.size(), 80u);
}

#ifdef KVCONFORM_PLANTED_KERNELS
TEST(Faults, every_planted_kernel_has_a_row_but_the_one_that_only_counts_can_show) {
  const auto kernels =
      std::count_if(all_faults().begin(), all_faults().end(),
                    [](const Fault& fault) { return fault.name.rfind("kernel-", 0) == 0; });
  EXPECT_EQ(kernels, int(cuda::PlantedFault::last) - 2);
}

TEST(Faults, a_missing_barrier_is_caught_by_the_race_checker_which_says_where) {
  const FaultResult result = run(fault_named("kernel-attention-weighs-too-early"), CaseSize::smoke);
  ASSERT_TRUE(result.caught());
  const Catch& caught = result.catches[0];
  EXPECT_EQ(caught.property, kRaceChecker);
  EXPECT_EQ(caught.kind, VerdictKind::broken);
  EXPECT_NE(caught.message.find("race at shared+"), std::string::npos) << caught.message;
  EXPECT_NE(caught.message.find("attention.cu:"), std::string::npos) << caught.message;
  EXPECT_EQ(totals_of({result}).races, 1);
  EXPECT_NE(catch_text(result).find("race checker after 1 case of "), std::string::npos)
      << catch_text(result);
}
#endif

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

TEST(Faults, a_place_in_a_model_that_the_property_made_is_looked_up_in_that_model) {
  for (const char* name : {"rotary-factor-ignored", "shared-projection-normed-for-values"}) {
    const FaultResult result = run(fault_named(name), CaseSize::smoke);
    ASSERT_TRUE(result.caught()) << name;
    EXPECT_EQ(result.catches[0].property, result.fault.caught_by);
    EXPECT_TRUE(result.catches[0].pinned) << name << ": " << result.catches[0].message;
  }
}

FaultResult caught_by(const std::string& fault,
                      std::vector<std::pair<std::string, std::int64_t>> catches) {
  FaultResult result;
  result.fault.name = fault;
  result.fault.site.part = "attention";
  for (const auto& [property, cases] : catches) {
    Catch caught;
    caught.property = property;
    caught.cases = cases;
    result.catches.push_back(caught);
  }
  result.cases = catches.empty() ? 100 : catches[0].second;
  return result;
}

TEST(Faults, a_property_is_worth_what_it_catches_alone_or_before_all_others) {
  const std::vector<FaultResult> results = {
      caught_by("a", {{"chunking", 3}}), caught_by("b", {{"rollback", 2}, {"chunking", 2}}),
      caught_by("c", {{"rollback", 5}, {"agreement", 4}}), caught_by("d", {})};
  const std::vector<PropertyShare> shares = shares_of(results);
  EXPECT_EQ(shares.size(), all_properties().size());
  const auto of = [&](const std::string& property) {
    return *std::find_if(shares.begin(), shares.end(),
                         [&](const PropertyShare& s) { return s.property == property; });
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(of("chunking").caught, 2);
  EXPECT_EQ(of("chunking").alone, Names{"a"});
  EXPECT_EQ(of("agreement").first, Names{"c"});
  EXPECT_TRUE(of("agreement").alone.empty() && of("agreement").earns_its_place());
  EXPECT_EQ(of("rollback").caught, 2);
  EXPECT_FALSE(of("rollback").earns_its_place()) << "a tie is no first place";
  MatrixOptions options;
  options.whole = true;
  const std::string text = matrix_markdown(results, options);
  EXPECT_NE(text.find("| chunking | 2 | 1: `a` | 1: `a` |"), std::string::npos) << text;
  EXPECT_NE(totals_text(results, options).find("no fault alone or before all others: "),
            std::string::npos);
}

TEST(Faults, the_totals_say_what_is_asked_for_and_which_faults_need_size_deep) {
  std::vector<FaultResult> results = {caught_by("a", {{"chunking", 3}}),
                                      caught_by("b", {{"chunking", 1}})};
  results[0].catches[0].pinned = true;
  results[0].catches[0].layers = 3;
  results[1].catches[0].layers = 2;
  MatrixOptions options;
  EXPECT_NE(totals_text(results, options).find("1 of 2 faults that have a place (50 %"),
            std::string::npos)
      << totals_text(results, options);
  EXPECT_NE(totals_text(results, options).find("no fault needs it"), std::string::npos);
  options.shrink_seconds = 1;
  results[1].fault.deep = true;
  const std::string text = totals_text(results, options);
  EXPECT_NE(text.find("shrunk: median 3 layers and a prompt of the window +0 tokens (at most 4"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("size deep alone must catch: b\n"), std::string::npos) << text;
}

TEST(Faults, the_matrix_names_what_was_missed) {
  FaultResult missed;
  missed.fault = all_faults()[0];
  missed.cases = 7;
  const std::string text = matrix_markdown({missed}, {});
  EXPECT_NE(text.find("0 of 1 fault caught"), std::string::npos) << text;
  EXPECT_NE(text.find("**missed**"), std::string::npos) << text;
}

}  // namespace
}  // namespace kvconform
