// Merged shards say what one run would have said; what does not belong together is refused.
#include "properties/reports/merge.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "properties/books.h"
#include "properties/reports/report.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

RunOptions small_run(const std::string& subject) {
  RunOptions options;
  options.subjects = {subject};
  options.properties = {"agreement", "chunking"};
  options.cases = 13;
  options.size = CaseSize::smoke;
  options.jobs = 1;
  options.shrink_seconds = 0.2;
  return options;
}

std::vector<fs::path> run_shards(RunOptions options, int shards, const fs::path& folder) {
  std::vector<fs::path> reports;
  options.shards = shards;
  for (options.shard = 1; options.shard <= shards; ++options.shard) {
    options.report = folder / (options.subjects[0].substr(6) + std::to_string(options.shard));
    run_properties(options);
    reports.push_back(options.report);
  }
  return reports;
}

std::string refusal(const std::vector<fs::path>& reports) {
  try {
    merge_reports(reports);
  } catch (const Error& e) {
    return e.id() + (" " + std::string(e.what()));
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Merge, ThreeShardsAreTheWholeRun) {
  const TemporaryFolder folder("kvconform-merge-test");
  RunOptions options = small_run("fault:window-missing");
  std::vector<fs::path> reports = run_shards(options, 3, folder.path());
  options.report = folder.path() / "whole";
  const RunSummary whole = run_properties(options);
  std::swap(reports[0], reports[2]);  // in whatever order they are named
  RunSummary merged = merge_reports(reports);
  EXPECT_EQ(merged.counts, whole.counts);
  EXPECT_EQ(merged.cases, whole.cases);
  EXPECT_EQ(merged.distribution, whole.distribution);
  EXPECT_FALSE(whole.distribution.empty());
  EXPECT_EQ(exit_code(merged), exit_code(whole));
  ASSERT_EQ(merged.results.size(), whole.results.size());
  for (std::size_t i = 0; i < whole.results.size(); ++i) {
    EXPECT_EQ(merged.results[i].property, whole.results[i].property);
    EXPECT_EQ(merged.results[i].verdict, whole.results[i].verdict);
    EXPECT_EQ(merged.results[i].counts, whole.results[i].counts);
    ASSERT_EQ(merged.results[i].failure.has_value(), whole.results[i].failure.has_value());
    if (whole.results[i].failure) {
      EXPECT_EQ(merged.results[i].failure->found_at, whole.results[i].failure->found_at);
    }
  }
  for (const auto& [name, entry] : whole.coverage)
    EXPECT_EQ(merged.coverage[name].met, entry.met) << name;
  fs::create_directory(folder.path() / "merged");
  copy_failures(merged, folder.path() / "merged");
  write_report(merged, folder.path() / "merged");
  const RunSummary read = read_report(folder.path() / "merged");
  EXPECT_EQ(read.counts, whole.counts);
  EXPECT_EQ(read.merged.size(), 3u);
  EXPECT_TRUE(read.results[0].failure->verdict.first_difference);
  EXPECT_TRUE(fs::exists(folder.path() / "merged" / "index.html"));
}

TEST(Merge, WhatOverlapsOrIsMissingIsRefused) {
  const TemporaryFolder folder("kvconform-merge-test");
  RunOptions options = small_run("reference");
  options.properties = {"chunking"};
  options.cases = 4;
  const std::vector<fs::path> thirds = run_shards(options, 3, folder.path() / "thirds");
  const std::vector<fs::path> halves = run_shards(options, 2, folder.path() / "halves");
  const std::string missing = refusal({thirds[0], thirds[2]});
  EXPECT_TRUE(mentions(missing, "KV2223") && mentions(missing, "shard 2/3")) << missing;
  const std::string twice = refusal({thirds[0], thirds[0], thirds[1], thirds[2]});
  EXPECT_TRUE(mentions(twice, "KV2222") && mentions(twice, "both hold shard 1/3")) << twice;
  const std::string mixed = refusal({thirds[0], thirds[1], thirds[2], halves[0]});
  EXPECT_TRUE(mentions(mixed, "KV2222") && mentions(mixed, halves[0].string()) &&
              mentions(mixed, thirds[0].string()))
      << mixed;
  EXPECT_TRUE(mentions(refusal({folder.path()}), "KV2202"));
}

TEST(Merge, OtherOptionsAreRefusedWithBothValues) {
  const TemporaryFolder folder("kvconform-merge-test");
  RunOptions options = small_run("reference");
  options.properties = {"chunking"};
  options.cases = 2;
  const fs::path one = run_shards(options, 1, folder.path() / "a").at(0);
  options.seed = 9;
  options.subjects = {"reference:double"};
  const fs::path two = run_shards(options, 1, folder.path() / "b").at(0);
  const std::string text = refusal({one, two});
  EXPECT_TRUE(mentions(text, "KV2221") && mentions(text, one.string()) &&
              mentions(text, two.string()) && mentions(text, "--seed is \"1\"") &&
              mentions(text, "\"9\""))
      << text;
}

TEST(Merge, RunsOfDifferentSubjectsStandSideBySide) {
  const TemporaryFolder folder("kvconform-merge-test");
  std::vector<fs::path> reports;
  for (const std::string subject : {"reference", "reference:double"}) {
    RunOptions options = small_run(subject);
    options.cases = 3;
    options.report = folder.path() / std::to_string(reports.size());
    run_properties(options);
    reports.push_back(options.report);
  }
  const RunSummary merged = merge_reports(reports);
  EXPECT_EQ(merged.results.size(), 4u);
  EXPECT_EQ(merged.cases, 12);
  EXPECT_EQ(merged.subjects.size(), 2u);
  EXPECT_EQ(exit_code(merged), 0);
}

TEST(Merge, AnInterruptedPartMakesTheWholeIncomplete) {
  const TemporaryFolder folder("kvconform-merge-test");
  RunOptions options = small_run("reference");
  options.cases = 2;
  std::vector<fs::path> reports = run_shards(options, 2, folder.path());
  std::atomic<bool> stop = false;
  options.stop = &stop;
  options.on_result = [&](const PropertyResult&) { stop = true; };
  options.shard = options.shards = 2;
  options.report = reports[1] = folder.path() / "interrupted";
  run_properties(options);
  const RunSummary merged = merge_reports(reports);
  EXPECT_FALSE(merged.complete);
  EXPECT_EQ(exit_code(merged), 130);
  EXPECT_TRUE(mentions(summary_html(merged), "Incomplete run"));
}

/// A whole check of one subject in two shards, as far as the books go.
RunSummary books_with(std::int64_t met) {
  RunSummary summary;
  summary.complete = summary.coverage_judged = true;
  PropertyResult result;
  result.property = "chunking";
  result.subject = "s";
  result.counts = {{VerdictKind::conforms, 800}};
  summary.results = {result};
  summary.subjects["s"].info.families = {"gemma4_text"};
  summary.subjects["s"].coverage["gemma4: window crossed"].met = met;
  return summary;
}

TEST(Minimum, ASubjectMustMeetEachHardClassItCanMeet) {
  RunSummary summary = books_with(1);
  judge_coverage(summary);
  const auto missing = missing_classes(summary.subjects["s"]);
  ASSERT_TRUE(missing.count("gemma4: window crossed"));
  EXPECT_EQ(missing.at("gemma4: window crossed").required, 2);
  EXPECT_FALSE(missing.count("gemma3n: window crossed"));  // no such family
  EXPECT_FALSE(missing.count("gemma4: several chunks"));   // no cache
  EXPECT_EQ(exit_code(summary), 3);
  // Another subject that met it does not help this one.
  summary.subjects["t"].info.families = {"gemma4_text"};
  summary.subjects["t"].coverage["gemma4: window crossed"].met = 1000;
  judge_coverage(summary);
  EXPECT_TRUE(missing_classes(summary.subjects["s"]).count("gemma4: window crossed"));
}

TEST(Minimum, NoMoreIsRequiredThanLuckAloneMissesOnceInAMillionRuns) {
  EXPECT_EQ(required_among(0, 16), 0);
  EXPECT_EQ(required_among(16, 16), 0) << "one case in expectation is none for certain";
  EXPECT_EQ(required_among(221, 16), 0);  // 13.8 expected: e^-13.8 is just above 1e-6
  EXPECT_EQ(required_among(222, 16), 1);
  EXPECT_EQ(required_among(4000, 16), 10) << "a share of the cases where that is certain";
  EXPECT_EQ(required_among(40000, 16), 12) << "as at default size: slow properties may get no more";
  EXPECT_EQ(required_among(4000, 250), 1);  // 16 expected
}

TEST(Merge, TheMinimumIsJudgedOverAllShards) {
  const TemporaryFolder folder("kvconform-merge-test");
  std::vector<fs::path> reports;
  for (int shard : {1, 2}) {
    RunSummary summary = books_with(1);
    summary.coverage_judged = false;
    summary.asked.subjects = {"s"};
    summary.shard = shard;
    summary.shards = 2;
    for (auto& [name, entry] : summary.subjects) entry.info.capabilities = {"score"};
    reports.push_back(folder.path() / std::to_string(shard));
    fs::create_directory(reports.back());
    write_report(summary, reports.back());
  }
  const RunSummary merged = merge_reports(reports);
  EXPECT_TRUE(merged.coverage_judged);
  EXPECT_EQ(merged.coverage.at("gemma4: window crossed").met, 2);
  EXPECT_EQ(merged.coverage.at("gemma4: window crossed").required, 4);  // 1600 cases
  EXPECT_EQ(exit_code(merged), 3);
}

TEST(Merge, AnEntryOfTheLedgerThatOneShardMetIsNoUnexpectedPass) {
  const TemporaryFolder folder("kvconform-merge-test");
  for (std::int64_t matched : {1, 0}) {
    std::vector<fs::path> reports;
    for (int shard : {1, 2}) {
      RunSummary summary = books_with(5);
      summary.asked = {{"s"}, "reference:double", {"chunking"}, {}, 0, 30};
      summary.shard = shard;
      summary.shards = 2;
      KnownFailure entry;
      entry.property = "chunking";
      entry.subject = "s";
      entry.reason = "r";
      entry.link = "l";
      summary.results[0].listed = {{entry, shard == 1 ? matched : 0}};
      reports.push_back(folder.path() / (std::to_string(matched) + std::to_string(shard)));
      fs::create_directory(reports.back());
      write_report(summary, reports.back());
    }
    EXPECT_EQ(exit_code(merge_reports(reports)), matched > 0 ? 0 : 1);
  }
}

}  // namespace
}  // namespace kvconform
