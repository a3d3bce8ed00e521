// The example subjects do what their pages say: the numpy one conforms to every property, the toy
// has its bug and no other (that it is no Gemma apart). Where python3 or numpy is missing the test
// did not run (exit code 77).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "properties/property.h"
#include "properties/runner.h"

namespace kvconform {
namespace {

/// A python3 that has numpy; empty if there is none.
std::string python() {
  for (const char* name : {"python3", "/usr/bin/python3"}) {
    if (std::system(fmt::format("{} -c 'import numpy' 2>/dev/null", name).c_str()) == 0)
      return name;
  }
  return "";
}

std::string example(const std::string& file) {
  return fmt::format("process:OPENBLAS_NUM_THREADS=1 exec {} {}/properties/examples/{}", python(),
                     KVCONFORM_SOURCE_DIR, file);
}

RunSummary run(const std::string& subject, CaseSize size) {
  RunOptions options;
  options.subjects = {subject};
  options.cases = 12;
  options.size = size;
  options.seed = 3;
  options.jobs = 1;
  options.shrink_seconds = 1;
  return run_properties(options);
}

TEST(ExampleSubjects, TheNumpyOneConformsToEveryProperty) {
  const RunSummary summary = run(example("numpy_subject.py"), CaseSize::standard);
  EXPECT_EQ(summary.results.size(), all_properties().size());
  for (const PropertyResult& result : summary.results) {
    EXPECT_EQ(result.verdict, VerdictKind::conforms) << result.property << ": " << result.message;
    VerdictCounts counts = result.counts;
    EXPECT_GT(counts[VerdictKind::conforms], 6) << result.property;
  }
  EXPECT_EQ(exit_code(summary), 0);
}

/// Run once for all that is asked about it.
const RunSummary& run_of_toy() {
  static const RunSummary summary = run(example("toy_subject.py"), CaseSize::smoke);
  return summary;
}

TEST(ExampleSubjects, TheToyHasOneBugThatShowsWhereTwoTokensComeInOneCall) {
  const RunSummary& summary = run_of_toy();
  const auto verdict_of = [&](const std::string& property) {
    for (const PropertyResult& result : summary.results)
      if (result.property == property) return result.verdict;
    throw std::out_of_range(property);
  };
  for (const char* sees_the_bug :
       {"cache-independence", "prefill-equals-decode", "chunking", "greedy-speculation"})
    EXPECT_EQ(verdict_of(sees_the_bug), VerdictKind::differs) << sees_the_bug;
  for (const char* holds : {"causality", "batch-rows", "rollback", "determinism"})
    EXPECT_EQ(verdict_of(holds), VerdictKind::conforms) << holds;
  for (const char* not_offered : {"fork-and-reorder", "save-and-restore", "memory-accounting"})
    EXPECT_EQ(verdict_of(not_offered), VerdictKind::not_applicable) << not_offered;
  EXPECT_EQ(exit_code(summary), 1);
}

TEST(ExampleSubjects, TheToysTraceSaysWhereItsBugIs) {
  for (const PropertyResult& result : run_of_toy().results) {
    if (result.property != "prefill-equals-decode") continue;
    ASSERT_TRUE(result.failure && result.failure->verdict.first_difference);
    const Difference& at = *result.failure->verdict.first_difference;
    EXPECT_EQ(at.layer, 0);
    EXPECT_EQ(at.part, "attention");
    EXPECT_EQ(at.token, 1);
    return;
  }
  FAIL() << "not run";
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  if (kvconform::python().empty()) {
    std::puts("not run: no python3 with numpy (Debian: python3-numpy)");
    return 77;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
