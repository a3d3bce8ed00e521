// Kept cases run first and outside every count; those checked in fail on the fault they come from
// and hold on the reference.
#include "properties/kept_cases.h"

#include <gtest/gtest.h>

#include <fstream>

#include "properties/case_judge.h"
#include "properties/replay.h"
#include "properties/reports/report.h"
#include "properties/runner.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

std::string id_of(const std::filesystem::path& folder) {
  try {
    read_kept_cases(folder);
  } catch (const Error& e) {
    return e.id();
  }
  return "";
}

RunOptions healthy_run(const std::string& property) {
  RunOptions options;
  options.properties = {property};
  options.cases = 4;
  options.size = CaseSize::smoke;
  options.jobs = 1;
  return options;
}

TEST(Regressions, EachCheckedInCaseFailsOnItsFaultAndHoldsOnTheReference) {
  const std::vector<KeptCase> kept = read_kept_cases(regressions_folder());
  EXPECT_GE(kept.size(), 5u);
  for (const KeptCase& one : kept) {
    const Case& test_case = one.test_case;
    EXPECT_EQ(test_case.subject, "fault:" + one.file.stem().string()) << one.file;
    EXPECT_NE(test_case.comment.find(one.file.stem().string()), std::string::npos) << one.file;
    const auto verdict = [&](const std::string& subject) {
      return to_string(replay_case(test_case, {subject, "", 2}).verdict);
    };
    EXPECT_STREQ(verdict(""), "differs") << one.file;
    EXPECT_STREQ(verdict("reference"), "conforms") << one.file;
  }
}

TEST(KeptCases, AreRunOutsideTheCountsOfTheRun) {
  RunOptions options = healthy_run("rollback");
  options.kept = read_kept_cases(regressions_folder());
  const RunSummary summary = run_properties(options);
  EXPECT_EQ(summary.cases, 4);
  EXPECT_EQ(summary.results.at(0).kept, (VerdictCounts{{VerdictKind::conforms, 1}}));
  options.shard = options.shards = 2;  // of several shards, the first runs them
  EXPECT_TRUE(run_properties(options).results.at(0).kept.empty());
}

TEST(KeptCases, OneThatFailsFailsTheRunAndIsTheFailureShown) {
  const TemporaryFolder folder("kvconform-kept-test");
  RunOptions options = healthy_run("rollback");
  options.subjects = {"fault:rewind-keeps-keys"};
  options.kept = read_kept_cases(regressions_folder());
  options.report = folder.path() / "report";
  options.cases = 1;
  options.seed = 5;
  const RunSummary summary = run_properties(options);
  EXPECT_EQ(exit_code(summary), 1);
  const PropertyResult& result = summary.results.at(0);
  EXPECT_EQ(result.kept, (VerdictCounts{{VerdictKind::differs, 1}}));
  ASSERT_TRUE(result.failure);
  EXPECT_TRUE(result.failure->kept);
  EXPECT_TRUE(result.failure->verdict.first_difference);
  EXPECT_EQ(result.failure->file.filename(),
            "rollback-fault-rewind-keeps-keys-kept-rewind-keeps-keys.json");
  const RunSummary again = read_report(options.report);
  EXPECT_EQ(again.results.at(0).kept, result.kept);
  EXPECT_TRUE(again.results.at(0).failure->kept);
}

TEST(KeptCases, FailuresInReportsBesideAreFoundOnceAndUnreadableOnesLeftOut) {
  const TemporaryFolder folder("kvconform-kept-test");
  const std::filesystem::path failures = folder.path() / "monday" / "failures";
  std::filesystem::create_directories(failures);
  const Case one = read_kept_cases(regressions_folder()).at(0).test_case;
  write_case(one, failures / "a.json");
  Case other = one;
  other.subject = "process:another";  // the same case of another subject
  write_case(other, failures / "b.json");
  std::ofstream(failures / "c.json") << "{}";
  EXPECT_TRUE(failures_beside(folder.path() / "today").empty());  // no report: no summary.json
  std::ofstream(folder.path() / "monday" / "summary.json") << "{}";
  std::vector<KeptCase> kept;
  add_kept(kept, failures_beside(folder.path() / "today"));
  EXPECT_EQ(kept.size(), 1u);
  EXPECT_TRUE(failures_beside(folder.path() / "monday").empty());  // not its own
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(failures_beside("today").size(), 2u);
  EXPECT_EQ(failures_beside("today/").size(), 2u);
  std::filesystem::current_path(before);
}

TEST(KeptCases, NamesStayAsLongAsTheyAreHoweverOftenACaseIsKeptAgain) {
  const std::string subject = "process:" + std::string(300, 'x');
  const std::string found = failure_file_name("agreement", subject, "17");
  const std::string first = failure_file_name("agreement", subject, kept_name(found));
  std::string name = first;
  for (int i = 0; i < 20; ++i) name = failure_file_name("agreement", subject, kept_name(name));
  EXPECT_EQ(name, first);
  EXPECT_LT(name.size(), 200u);
  EXPECT_NE(failure_file_name("agreement", subject + "y", "17"), found);
  EXPECT_EQ(kept_name("regressions/window-one-too-wide.json"), "kept-window-one-too-wide");
}

TEST(KeptCases, AFolderThatIsNoneAndFilesThatAreNoCasesAreRefused) {
  const TemporaryFolder folder("kvconform-kept-test");
  EXPECT_EQ(id_of(folder.path() / "nowhere"), "KV2006");
  EXPECT_EQ(id_of(folder.path()), "");
  std::ofstream(folder.path() / "a.json") << "{}";
  EXPECT_EQ(id_of(folder.path()), "KV2002");
}

}  // namespace
}  // namespace kvconform
