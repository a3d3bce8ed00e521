// The ledger is read strictly, explains the failures it lists and no others, and does not outlive
// them.
#include "properties/known_failures.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "properties/case_judge.h"
#include "properties/reports/report.h"
#include "properties/runner.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

json entry(const std::string& property, const std::string& subject) {
  return {{"property", property},
          {"subject", subject},
          {"reason", "waits for release 2"},
          {"link", "https://example.org/issues/7"}};
}

std::string ledger(const json& failures) {
  return json{{"format", "kvconform-known-failures-1"}, {"failures", failures}}.dump();
}

std::string id_of(const std::string& text) {
  try {
    parse_known_failures(text, "ledger.json");
  } catch (const Error& e) {
    return e.id();
  }
  return "";
}

const std::string kFaulty = "fault:window-missing";

RunOptions run_with(const json& failures, const std::string& subject = kFaulty) {
  RunOptions options;
  options.subjects = {subject};
  options.properties = {"agreement"};
  options.cases = 12;
  options.size = CaseSize::smoke;
  options.jobs = 2;
  options.shrink_seconds = 0.2;
  options.known = parse_known_failures(ledger(failures), "ledger.json");
  return options;
}

RunSummary run(const RunOptions& options) {
  const RunSummary summary = run_properties(options);
  for (const PropertyResult& result : summary.results) {
    if (result.failure && !result.failure->file.empty())
      std::filesystem::remove_all(result.failure->file.parent_path());
  }
  return summary;
}

TEST(Ledger, WhatIsNotALedgerIsRefused) {
  json other = entry("agreement", kFaulty);
  EXPECT_EQ(id_of(ledger(json::array({other}))), "");
  EXPECT_EQ(id_of("[1"), "KV2304");
  EXPECT_EQ(id_of("{}"), "KV2304");
  EXPECT_EQ(id_of(R"({"format": "else", "failures": []})"), "KV2304");
  for (const char* field : {"property", "subject", "reason", "link"}) {
    json incomplete = other;
    incomplete.erase(field);
    EXPECT_EQ(id_of(ledger(json::array({incomplete}))), "KV2304") << field;
  }
  for (const json& wrong :
       {json{{"wher", 1}}, json{{"where", json::object()}}, json{{"where", {{"layer", -1}}}},
        json{{"verdict", "flaky"}}, json{{"reason", ""}},
        json{{"verdict", "broken"}, {"where", {{"layer", 1}}}}}) {
    json changed = other;
    changed.update(wrong);
    EXPECT_EQ(id_of(ledger(json::array({changed}))), "KV2304") << wrong;
  }
}

TEST(Ledger, UnknownPropertiesAndEntriesGivenTwiceAreRefused) {
  EXPECT_EQ(id_of(ledger(json::array({entry("agrement", kFaulty)}))), "KV2301");
  json again = entry("agreement", kFaulty);
  again["reason"] = "another reason";
  EXPECT_EQ(id_of(ledger(json::array({entry("agreement", kFaulty), again}))), "KV2305");
  again["where"] = {{"part", "attention"}};
  EXPECT_EQ(id_of(ledger(json::array({entry("agreement", kFaulty), again}))), "");
}

TEST(Ledger, AListedFailureIsKnownAndDoesNotFailTheRun) {
  const RunSummary summary = run(run_with(json::array({entry("agreement", kFaulty)})));
  const PropertyResult& result = summary.results.at(0);
  EXPECT_EQ(result.verdict, VerdictKind::known);
  EXPECT_GT(result.counts.at(VerdictKind::known), 0);
  EXPECT_EQ(result.counts.count(VerdictKind::differs), 0u);
  EXPECT_EQ(result.listed.at(0).matched, result.counts.at(VerdictKind::known));
  EXPECT_EQ(exit_code(summary), 0);
  EXPECT_NE(result.message.find("waits for release 2 (https://example.org/issues/7)"),
            std::string::npos)
      << result.message;
  EXPECT_EQ(result_json(result).at("known_failures").at(0).at("matched"), result.listed[0].matched);
  pugi::xml_document junit;
  ASSERT_TRUE(junit.load_string(junit_xml(summary).c_str()));
  const auto skipped =
      junit.child("testsuites").child("testsuite").child("testcase").child("skipped");
  EXPECT_NE(std::string(skipped.attribute("message").value()).find("waits for release 2"),
            std::string::npos);
}

TEST(Ledger, AnEntryWithAPlaceExplainsOnlyFailuresThere) {
  json here = entry("agreement", kFaulty);
  here["where"] = {{"part", "attention"}};
  EXPECT_EQ(exit_code(run(run_with(json::array({here})))), 0);
  here["where"] = {{"part", "embedding"}};
  const RunSummary elsewhere = run(run_with(json::array({here})));
  EXPECT_EQ(elsewhere.results.at(0).verdict, VerdictKind::differs);
  EXPECT_EQ(exit_code(elsewhere), 1);
}

TEST(Ledger, AListedFailureThatDoesNotHappenFailsTheRun) {
  const RunSummary summary =
      run(run_with(json::array({entry("agreement", "reference")}), "reference"));
  const PropertyResult& result = summary.results.at(0);
  EXPECT_EQ(result.verdict, VerdictKind::unexpectedly_conforms);
  EXPECT_EQ(exit_code(summary), 1);
  EXPECT_NE(failure_text(result).find("remove the entry from the ledger"), std::string::npos);
}

TEST(Ledger, AListedFailureOfACaseKeptFromEarlierIsKnownToo) {
  RunOptions options = run_with(json::array({entry("agreement", kFaulty)}));
  KeptCase kept;
  kept.file = "kept.json";
  for (std::uint64_t index = 0; kept.test_case.property.empty(); ++index) {
    const Case drawn = find_property("agreement").generate(1, index, CaseSize::smoke);
    CaseJudge judge(kFaulty, "reference:double");
    if (is_failure(judge.judge(find_property("agreement"), drawn, false).kind))
      kept.test_case = drawn;
  }
  options.kept = {kept};
  const RunSummary listed = run(options);
  EXPECT_EQ(listed.results.at(0).kept, (VerdictCounts{{VerdictKind::known, 1}}));
  EXPECT_EQ(exit_code(listed), 0);
  options.known = parse_known_failures(ledger(json::array({entry("chunking", kFaulty)})), "ledger");
  const RunSummary other = run(options);
  EXPECT_EQ(other.results.at(0).kept, (VerdictCounts{{VerdictKind::differs, 1}}));
  EXPECT_EQ(exit_code(other), 1);
}

TEST(Ledger, ChecksOfWhatIsStoredAreListedForSubjectsThatTheyAreAboutAndByName) {
  json oracle = entry("oracle", "reference");
  EXPECT_EQ(id_of(ledger(json::array({oracle, entry("golden", "reference")}))), "");
  EXPECT_EQ(id_of(ledger(json::array({entry("golden", "cuda")}))), "");
  for (const json& wrong :
       {entry("oracle", kFaulty), entry("golden", kFaulty), entry("oracle", "cuda")})
    EXPECT_EQ(id_of(ledger(json::array({wrong}))), "KV2304") << wrong;
  json named = oracle;
  named["where"] = {{"case", "gemma3n-base"}};
  const auto read = parse_known_failures(ledger(json::array({oracle, named})), "ledger.json");
  EXPECT_EQ(known_failure_from_json(to_json(read.at(1)), "again"), read.at(1));
  const std::vector<ListedFailure> listed = {{read.at(1), 0}};
  EXPECT_EQ(find_listed(listed, VerdictKind::differs, "gemma3n-base"), 0);
  EXPECT_EQ(find_listed(listed, VerdictKind::differs, "gemma4-base"), -1);
  EXPECT_EQ(find_listed(listed, VerdictKind::broken, "gemma3n-base"), -1);
  named["where"] = {{"layer", 3}};
  EXPECT_EQ(id_of(ledger(json::array({named}))), "KV2304");
  json property = entry("agreement", kFaulty);
  property["where"] = {{"case", "gemma3n-base"}};
  EXPECT_EQ(id_of(ledger(json::array({property}))), "KV2304");
}

TEST(Ledger, EntriesAboutOthersAndShardsAreNoUnexpectedPass) {
  RunOptions options = run_with(
      json::array({entry("agreement", kFaulty), entry("chunking", "reference")}), "reference");
  EXPECT_EQ(exit_code(run(options)), 0);
  options = run_with(json::array({entry("agreement", "reference")}), "reference");
  options.shards = 2;
  EXPECT_EQ(exit_code(run(options)), 0);
}

}  // namespace
}  // namespace kvconform
