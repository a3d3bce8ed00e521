// Going on with a run under any other option is refused, and the message says which option and
// both of its values. The table has a line for each option that decides what is run.
#include "properties/reports/resume.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "properties/reports/report.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform {
namespace {

RunSummary some_run() {
  RunSummary run;
  run.commit = "abc";
  run.seed = 7;
  run.cases_per_property = 20;
  run.asked = {{"reference"}, "reference:double", {}, {}, 0, 30};
  return run;
}

struct Change {
  std::string option, before, now;
  std::function<void(RunSummary&)> make;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"--subject", "reference", "reference, fault:window-missing",
       [](RunSummary& r) { r.asked.subjects.push_back("fault:window-missing"); }},
      {"--against", "reference:double", "reference",
       [](RunSummary& r) { r.asked.against = "reference"; }},
      {"--property", "all", "chunking", [](RunSummary& r) { r.asked.properties = {"chunking"}; }},
      {"--model", "none", "/models/a", [](RunSummary& r) { r.asked.models = {"/models/a"}; }},
      {"--known-failures", "none",
       R"([{"link":"l","property":"chunking","reason":"r","subject":"s","verdict":"differs"}])",
       [](RunSummary& r) {
         r.asked.known = {{"chunking", "s", "r", "l"}};
       }},
      {"--seed", "7", "8", [](RunSummary& r) { r.seed = 8; }},
      {"--size", "default", "deep", [](RunSummary& r) { r.size = CaseSize::deep; }},
      {"--shard", "1/1", "1/2", [](RunSummary& r) { r.shards = 2; }},
      {"--cases", "20", "by time", [](RunSummary& r) { r.cases_per_property = 0; }},
      {"--seconds", "no limit", "2.5", [](RunSummary& r) { r.asked.seconds = 2.5; }},
      {"--timeout", "30", "60", [](RunSummary& r) { r.asked.timeout = 60; }},
      {"commit", "abc", "def", [](RunSummary& r) { r.commit = "def"; }}};
  return all;
}

std::string refusal(const RunSummary& before, const RunSummary& now) {
  try {
    require_same_run(before, now, "report");
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "KV2203");
    return e.problem();
  }
  return "";
}

TEST(Resume, TheSameOptionsAreAccepted) {
  EXPECT_EQ(refusal(some_run(), some_run()), "");
}

TEST(Resume, EachOtherOptionIsRefusedByNameWithBothValues) {
  for (const Change& change : changes()) {
    RunSummary now = some_run();
    change.make(now);
    const std::string text = refusal(some_run(), now);
    EXPECT_NE(text.find(change.option), std::string::npos) << change.option << ": " << text;
    EXPECT_NE(text.find('"' + change.before + '"'), std::string::npos) << text;
    EXPECT_NE(text.find('"' + change.now + '"'), std::string::npos) << text;
    EXPECT_EQ(text.find(';'), std::string::npos) << "one option differs: " << text;
  }
}

TEST(Resume, ResultsOfTheRunDoNotMatter) {
  RunSummary now = some_run();
  now.seconds = 5;
  now.cases = 3;
  now.complete = true;
  EXPECT_EQ(refusal(some_run(), now), "");
}

TEST(Resume, AFolderWithNothingButRunningCasesIsStartedAnew) {
  const TemporaryFolder folder("kvconform-resume-test");
  std::filesystem::create_directories(folder.path() / "running");
  std::ofstream(folder.path() / "running" / "running-0.json") << "{}";
  RunOptions options;
  options.properties = {"chunking"};
  options.cases = 2;
  options.size = CaseSize::smoke;
  options.report = folder.path();
  try {
    run_properties(options);
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "KV2201");
    EXPECT_NE(e.remedy().find("--resume"), std::string::npos);
  }
  options.resume = true;
  EXPECT_EQ(run_properties(options).cases, 2);
  EXPECT_TRUE(read_report(folder.path()).complete);
}

}  // namespace
}  // namespace kvconform
