// Runs and their reports: the same verdicts for any number of jobs and shards, failures that can be
// replayed, reports that stay valid when a run is interrupted, exit codes.
#include "properties/runner.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "properties/replay.h"
#include "properties/reports/report.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

RunOptions small_run(const std::string& subject, const std::string& property) {
  RunOptions options;
  options.subjects = {subject};
  options.properties = {property};
  options.cases = 12;
  options.size = CaseSize::smoke;
  options.jobs = 1;
  options.shrink_seconds = 1;
  return options;
}

/// Runs, and removes the folder of failing cases that a run without a report leaves to the user.
RunSummary run(const RunOptions& options) {
  const RunSummary summary = run_properties(options);
  for (const PropertyResult& result : summary.results) {
    if (options.report.empty() && result.failure && !result.failure->file.empty())
      std::filesystem::remove_all(result.failure->file.parent_path());
  }
  return summary;
}

std::string id_of(const RunOptions& options) {
  try {
    run_properties(options);
  } catch (const Error& e) {
    return e.id();
  }
  return "";
}

TEST(Runner, VerdictsAndSmallestCasesAreTheSameForAnyNumberOfJobs) {
  RunOptions options = small_run("fault:query-after-append", "chunking");
  options.shrink_seconds = 100;  // to the end, and not until the time is over
  const RunSummary one = run(options);
  options.jobs = 3;
  const RunSummary three = run(options);
  EXPECT_EQ(one.counts, three.counts);
  EXPECT_EQ(one.coverage.size(), three.coverage.size());
  ASSERT_TRUE(one.results[0].failure && three.results[0].failure);
  const Failure &alone = *one.results[0].failure, &together = *three.results[0].failure;
  EXPECT_EQ(alone.found_at, together.found_at);
  EXPECT_EQ(to_json(alone.smallest), to_json(together.smallest));
  EXPECT_NE(to_json(alone.smallest)["calls"].size(), 0u);
}

TEST(Runner, ShardsTogetherJudgeTheCasesOfOneRun) {
  RunOptions options = small_run("fault:query-after-append", "chunking");
  const RunSummary whole = run(options);
  VerdictCounts joined;
  options.shards = 3;
  for (options.shard = 1; options.shard <= 3; ++options.shard) {
    for (const auto& [kind, count] : run(options).counts) joined[kind] += count;
  }
  EXPECT_EQ(joined, whole.counts);
}

TEST(Runner, AHealthyRunExitsWithZeroAndAFaultyOneWithOne) {
  EXPECT_EQ(exit_code(run(small_run("reference", "chunking"))), 0);
  EXPECT_EQ(exit_code(run(small_run("fault:window-missing", "agreement"))), 1);
}

TEST(Runner, ExitCodesFollowTheOrderBrokenDiffersNothing) {
  RunSummary summary;
  summary.complete = true;
  EXPECT_EQ(exit_code(summary), 3);
  summary.results.resize(1);
  summary.results[0].counts = {{VerdictKind::not_applicable, 5}, {VerdictKind::ill_conditioned, 2}};
  EXPECT_EQ(exit_code(summary), 3);
  summary.results[0].counts[VerdictKind::conforms] = 1;
  EXPECT_EQ(exit_code(summary), 0);
  summary.coverage_judged = true;
  summary.subjects["reference"].coverage["gemma3n: window crossed"] = {1, 2};
  EXPECT_EQ(exit_code(summary), 3);
  summary.results[0].counts[VerdictKind::flaky] = 1;
  EXPECT_EQ(exit_code(summary), 1);
  summary.results[0].counts[VerdictKind::broken] = 1;
  EXPECT_EQ(exit_code(summary), 4);
  summary.interrupted = true;
  EXPECT_EQ(exit_code(summary), 130);
}

TEST(Runner, AFailureIsShrunkLocatedAndReplays) {
  const RunSummary summary =
      run_properties(small_run("fault:own-keys-without-cache", "cache-independence"));
  const PropertyResult& result = summary.results.at(0);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.verdict, VerdictKind::differs);
  const Verdict& verdict = result.failure->verdict;
  ASSERT_TRUE(verdict.first_difference);
  EXPECT_EQ(verdict.first_difference->part, "attention");
  EXPECT_GT(verdict.first_difference->layer, 0);
  EXPECT_NE(verdict.cause.find("mlx-lm #1674"), std::string::npos);
  const Case recorded = read_case(result.failure->file);
  EXPECT_EQ(replay_case(recorded, {}).verdict, VerdictKind::differs);
  EXPECT_EQ(replay_case(recorded, {"reference", "", 2}).verdict, VerdictKind::conforms);
  const std::string text = failure_text(result);
  EXPECT_NE(text.find("kvconform replay " + result.failure->file.string()), std::string::npos);
  std::filesystem::remove_all(result.failure->file.parent_path());
}

/// What a run says of a property on a subject, after the properties named before it.
std::optional<Failure> failure_of(const std::string& subject, const std::string& property,
                                  const std::vector<std::string>& before = {}) {
  RunOptions options = small_run(subject, property);
  options.properties.insert(options.properties.begin(), before.begin(), before.end());
  return run(options).results.back().failure;
}

TEST(Runner, AFailureSaysWhichOfTwoWaysDeparts) {
  const auto departs = [](const char* fault, const char* property) {
    const auto failure = failure_of(fault, property);
    return failure ? failure->verdict.departs : "no failure";
  };
  EXPECT_EQ(departs("fault:own-keys-without-cache", "cache-independence"),
            "with a cache agrees with reference:double, without a cache does not");
  EXPECT_EQ(departs("fault:window-one-too-wide-in-prefill", "prefill-equals-decode"),
            "given token by token agrees with reference:double, given at once does not");
  EXPECT_EQ(departs("fault:window-one-too-narrow-in-decode", "prefill-equals-decode"),
            "given at once agrees with reference:double, given token by token does not");
  EXPECT_EQ(departs("fault:query-after-append", "prefill-equals-decode"),
            "neither given at once nor given token by token agrees with reference:double");
}

TEST(Runner, AFailureNamesTheEarlierPropertyThatItsCaseBreaksAsWell) {
  const auto first = failure_of("fault:query-after-append", "cache-independence");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->breaks_too, "");
  const auto echo = failure_of("fault:query-after-append", "agreement", {"cache-independence"});
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->breaks_too, "cache-independence");
  // Its cases differ in which layers share: the first property holds on each of them.
  const auto other = failure_of("fault:own-keys-without-cache", "topology", {"cache-independence"});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->breaks_too, "");
}

TEST(Runner, WrongOptionsAreRefusedBeforeAnythingRuns) {
  EXPECT_EQ(id_of(small_run("nonsense", "chunking")), "KV2101");
  EXPECT_EQ(id_of(small_run("reference", "nonsense")), "KV2301");
  RunOptions options = small_run("reference", "chunking");
  options.shard = 3;
  options.shards = 2;
  EXPECT_EQ(id_of(options), "KV2302");
}

TEST(Report, HoldsWhatThePageOfTheCommandLinePromises) {
  const TemporaryFolder folder("kvconform-report-test");
  RunOptions options = small_run("fault:window-missing", "agreement");
  options.report = folder.path() / "report";
  const RunSummary summary = run(options);
  std::ifstream lines(options.report / "results.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json result = json::parse(line);
  for (const char* field :
       {"property", "subject", "against", "verdict", "counts", "case", "seed", "cases",
        "budget_used", "first_difference", "cause", "shrunk", "message", "seconds"}) {
    EXPECT_TRUE(result.contains(field)) << field;
  }
  EXPECT_TRUE(std::filesystem::exists(options.report / result["case"].get<std::string>()));
  std::ifstream file(options.report / "summary.json");
  const json totals = json::parse(file);
  for (const char* field :
       {"commit", "seed", "size", "shard", "complete", "seconds", "cases", "cases_per_minute",
        "counts", "properties", "coverage", "environment", "exit_code"}) {
    EXPECT_TRUE(totals.contains(field)) << field;
  }
  EXPECT_EQ(totals["exit_code"], 1);
  EXPECT_EQ(totals["cases"], 12);
  pugi::xml_document junit;
  ASSERT_TRUE(junit.load_file((options.report / "junit.xml").c_str()));
  EXPECT_STREQ(junit.child("testsuites").attribute("failures").value(), "1");
  EXPECT_FALSE(std::filesystem::exists(options.report / "running"));
  const RunSummary read = read_report(options.report);
  EXPECT_EQ(read.counts, summary.counts);
  EXPECT_EQ(read.results.size(), 1u);
}

TEST(Report, AFolderInUseIsRefusedAndAFileIsNoFolder) {
  const TemporaryFolder folder("kvconform-report-test");
  std::ofstream(folder.path() / "something") << "x";
  RunOptions options = small_run("reference", "chunking");
  options.report = folder.path();
  EXPECT_EQ(id_of(options), "KV2201");
  options.resume = true;
  EXPECT_EQ(id_of(options), "KV2202");
  options.report = folder.path() / "something";
  EXPECT_EQ(id_of(options), "KV2201");
}

TEST(Report, AnInterruptedRunIsValidIncompleteAndGoesOnWhenResumed) {
  const TemporaryFolder folder("kvconform-report-test");
  std::atomic<bool> stop = false;
  RunOptions options = small_run("reference", "chunking");
  options.properties = {"chunking", "prefill-equals-decode"};
  options.report = folder.path();
  options.stop = &stop;
  options.on_result = [&](const PropertyResult&) { stop = true; };
  const RunSummary interrupted = run(options);
  EXPECT_EQ(exit_code(interrupted), 130);
  EXPECT_FALSE(read_report(folder.path()).complete);
  stop = false;
  options.on_result = nullptr;
  options.resume = true;
  const RunSummary resumed = run(options);
  EXPECT_TRUE(resumed.complete);
  EXPECT_EQ(resumed.cases, 24);
  options.seed = 99;
  EXPECT_EQ(id_of(options), "KV2203");
  options.seed = 1;
  options.properties = {"chunking"};  // its results alone would be taken over, and the rest lost
  EXPECT_EQ(id_of(options), "KV2203");
}

TEST(Report, AnErrorOnTheWayIsTheExitCodeOfTheReport) {
  const TemporaryFolder folder("kvconform-report-test");
  RunOptions options = small_run("reference", "chunking");
  options.report = folder.path();
  options.on_result = [](const PropertyResult&) { throw Error("KV9999", "planted", "none"); };
  EXPECT_EQ(id_of(options), "KV9999");
  const RunSummary read = read_report(folder.path());
  EXPECT_FALSE(read.complete);
  std::ifstream file(folder.path() / "summary.json");
  EXPECT_EQ(json::parse(file).at("exit_code"), 2);
}

TEST(Runner, APropertyWithoutACaseIsNotSaidToConform) {
  RunOptions options = small_run("reference", "chunking");
  options.cases = 2;
  options.shard = options.shards = 3;
  const RunSummary summary = run(options);
  EXPECT_EQ(summary.results.at(0).verdict, VerdictKind::nothing_compared);
  EXPECT_STREQ(to_string(summary.results.at(0).verdict), "nothing compared");
  EXPECT_EQ(exit_code(summary), 3);
}

TEST(Runner, WithoutAReportNoFolderIsLeftWhereNothingFailsOrNothingIsToBeKept) {
  const TemporaryFolder root("kvconform-runner-test");
  setenv("TMPDIR", root.path().c_str(), 1);
  run_properties(small_run("reference", "chunking"));
  RunOptions options = small_run("fault:window-missing", "agreement");
  options.stop_at_first_failure = true;
  const RunSummary first = run_properties(options);
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
  EXPECT_TRUE(first.results.at(0).failure->file.empty());
  options.stop_at_first_failure = false;
  const RunSummary kept = run_properties(options);
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::exists(kept.results.at(0).failure->file));
}

TEST(Runner, EachPropertySaysWhetherItUsedWhatItIsHeldAgainst) {
  RunOptions options = small_run("reference", "chunking");
  options.cases = 3;
  options.properties = {"agreement", "chunking"};
  const RunSummary summary = run(options);
  EXPECT_TRUE(summary.results.at(0).against_used);
  EXPECT_FALSE(summary.results.at(1).against_used);
}

TEST(Runner, AnImplementationHeldAgainstThatBreaksIsNamed) {
  // It answers hello, once for the check before the run and once for the first case, and ends.
  RunOptions options = small_run("reference", "agreement");
  options.cases = 1;
  options.timeout = 5;
  options.against =
      "process:read -r line; echo '{\"ok\": true, \"name\": \"x\", \"version\": \"1\", "
      "\"families\": [\"gemma3n_text\", \"gemma4_text\"], "
      "\"dtype\": \"float32\", \"capabilities\": [\"score\", \"cache\", \"chunked\"]}'";
  const RunSummary summary = run(options);
  EXPECT_EQ(summary.results.at(0).verdict, VerdictKind::broken);
  EXPECT_NE(summary.results.at(0).message.find("which the subject is held against"),
            std::string::npos)
      << summary.results.at(0).message;
}

}  // namespace
}  // namespace kvconform
