// Reports are files that other programs read: whatever a subject writes or is called, they stay
// JSON, XML and Markdown, and what they say survives being read again.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <sstream>
#include <string>

#include "properties/books.h"
#include "properties/case_judge.h"
#include "properties/reports/report.h"
#include "properties/temporary_folder.h"

namespace kvconform {
namespace {

using nlohmann::json;

const std::string kNasty = "<a> & \"b\" | `c` \x1B[31m \xFF\xC3( ]]>\nsecond line ``` |";

PropertyResult nasty_result(VerdictKind kind) {
  PropertyResult result;
  result.property = "chunking";
  result.sentence = "A sentence with <, & and |.";
  result.subject = "process:echo '" + kNasty + "'";
  result.against = "reference:double";
  result.verdict = kind;
  result.counts[kind] = 1;
  result.cases = 1;
  result.message = "it said: " + kNasty;
  return result;
}

RunSummary summary_with(const PropertyResult& result) {
  RunSummary summary;
  summary.complete = true;
  summary.results = {result};
  summary.counts = result.counts;
  summary.asked.subjects = {result.subject};
  return summary;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// pugixml reads control characters; a strict reader does not.
bool has_forbidden_byte(const std::string& text) {
  for (unsigned char c : text) {
    if (c == 0xFF || (c < 0x20 && c != '\n' && c != '\t')) return true;
  }
  return false;
}

TEST(JUnit, NamesAndMessagesOfAnyBytesMakeAWellFormedFile) {
  for (VerdictKind kind :
       {VerdictKind::broken, VerdictKind::differs, VerdictKind::not_applicable}) {
    const std::string xml = junit_xml(summary_with(nasty_result(kind)));
    EXPECT_FALSE(has_forbidden_byte(xml)) << xml;
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_string(xml.c_str());
    ASSERT_TRUE(parsed) << parsed.description() << "\n" << xml;
    const pugi::xml_node test = document.child("testsuites").child("testsuite").child("testcase");
    EXPECT_NE(std::string(test.attribute("classname").value()).find("<a> & \"b\" | `c` ?[31m"),
              std::string::npos);
    const std::string message = test.first_child().attribute("message").value();
    EXPECT_NE(message.find("\xEF\xBF\xBD"), std::string::npos) << message;
    EXPECT_NE(message.find("second line"), std::string::npos) << message;
  }
}

TEST(JUnit, EachVerdictIsCountedAsWhatItIs) {
  RunSummary summary;
  for (VerdictKind kind :
       {VerdictKind::conforms, VerdictKind::differs, VerdictKind::flaky, VerdictKind::broken,
        VerdictKind::not_applicable, VerdictKind::nothing_compared}) {
    summary.results.push_back(nasty_result(kind));
    summary.results.back().subject = "reference";
  }
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(junit_xml(summary).c_str()));
  const pugi::xml_node root = document.child("testsuites");
  EXPECT_EQ(root.attribute("tests").as_int(), 6);
  EXPECT_EQ(root.attribute("failures").as_int(), 2);
  EXPECT_EQ(root.attribute("errors").as_int(), 1);
  EXPECT_EQ(root.attribute("skipped").as_int(), 2);
  EXPECT_TRUE(root.child("testsuite").find_child_by_attribute("testcase", "name", "chunking"));
}

TEST(Json, AReportOfAnyBytesIsValidJsonAndIsReadAgain) {
  const TemporaryFolder folder("kvconform-reports-test");
  RunSummary summary = summary_with(nasty_result(VerdictKind::broken));
  summary.asked.models = {"/models/\xFF"};
  summary.environment["processor"] = kNasty;
  write_report(summary, folder.path());
  const json totals = json::parse(text_of(folder.path() / "summary.json"));
  EXPECT_EQ(totals.at("exit_code"), 4);
  const std::string lines = text_of(folder.path() / "results.jsonl");
  const json result = json::parse(lines);  // one line: a second one would not parse
  EXPECT_NE(result.at("message").get<std::string>().find("second line"), std::string::npos);
  EXPECT_EQ(result.at("against_used"), false);
  const RunSummary again = read_report(folder.path());
  EXPECT_EQ(again.results.at(0).verdict, VerdictKind::broken);
  EXPECT_EQ(again.asked.against, summary.asked.against);
}

TEST(Json, WhatWasAskedIsKept) {
  const TemporaryFolder folder("kvconform-reports-test");
  RunSummary summary = summary_with(nasty_result(VerdictKind::conforms));
  summary.results[0].against_used = true;
  summary.asked = {{"reference", "b"}, "c", {"chunking", "golden"}, {"/d"}, 2.5, 7};
  write_report(summary, folder.path());
  const RunSummary again = read_report(folder.path());
  EXPECT_EQ(again.asked.subjects, summary.asked.subjects);
  EXPECT_EQ(again.asked.against, "c");
  EXPECT_EQ(again.asked.properties, summary.asked.properties);
  EXPECT_EQ(again.asked.models, summary.asked.models);
  EXPECT_EQ(again.asked.seconds, 2.5);
  EXPECT_EQ(again.asked.timeout, 7);
  EXPECT_TRUE(again.results.at(0).against_used);
}

TEST(Json, AnErrorThatEndedTheRunIsTheExitCodeOfItsReport) {
  RunSummary summary = summary_with(nasty_result(VerdictKind::conforms));
  EXPECT_EQ(summary_json(summary).at("exit_code"), 0);
  summary.complete = false;
  EXPECT_TRUE(summary_json(summary).at("exit_code").is_null());
  summary.ended_with = 2;
  EXPECT_EQ(summary_json(summary).at("exit_code"), 2);
}

TEST(Markdown, EveryRowOfATableIsOneLineWithItsCells) {
  const std::string text = summary_markdown(summary_with(nasty_result(VerdictKind::differs)));
  EXPECT_FALSE(has_forbidden_byte(text)) << text;
  std::istringstream lines(text);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| chunking", 0) != 0) continue;
    ++rows;
    int separators = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      separators += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    }
    EXPECT_EQ(separators, 8) << line;
    EXPECT_EQ(line.find("<a>"), std::string::npos) << line;
    EXPECT_NE(line.find("second line"), std::string::npos) << line;
  }
  EXPECT_EQ(rows, 1) << text;
}

TEST(Markdown, BackticksInAMessageDoNotEndTheBlockOfAFailure) {
  const std::string text = summary_markdown(summary_with(nasty_result(VerdictKind::broken)));
  const std::size_t open = text.find("\n````text\n");
  ASSERT_NE(open, std::string::npos) << text;
  EXPECT_NE(text.find("\n````\n", open), std::string::npos) << text;
}

TEST(Markdown, TheDistributionOfGeneratedCasesIsATableWithValuesInOrder) {
  RunSummary summary = summary_with(nasty_result(VerdictKind::conforms));
  EXPECT_EQ(summary_markdown(summary).find("generated cases were like"), std::string::npos);
  summary.distribution["sliding window"] = {{"17-32", 4}, {"2", 3}, {"none", 5}};
  summary.distribution["a|b\n"] = {{"<c>", 1}};
  const std::string text = summary_markdown(summary);
  EXPECT_NE(text.find("| sliding window | 2: 3, 17-32: 4, none: 5 |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| a\\|b  | &lt;c>: 1 |\n"), std::string::npos) << text;
}

TEST(Markdown, TheTitleSaysWhatTheExitCodeSays) {
  const auto title = [](VerdictKind kind, bool complete) {
    RunSummary summary = summary_with(nasty_result(kind));
    summary.complete = complete;
    const std::string text = summary_markdown(summary);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(title(VerdictKind::conforms, true), "# kvconform: conforms");
  EXPECT_EQ(title(VerdictKind::differs, true), "# kvconform: does not conform");
  EXPECT_EQ(title(VerdictKind::ill_conditioned, true), "# kvconform: too little was compared");
  EXPECT_EQ(title(VerdictKind::conforms, false), "# kvconform: incomplete run");
}

TEST(Reports, CasesThatWereNotComparedAreToldApartAndTheirReasonsNamed) {
  PropertyResult result = nasty_result(VerdictKind::conforms);
  result.counts = {
      {VerdictKind::conforms, 9}, {VerdictKind::refused, 40}, {VerdictKind::not_applicable, 151}};
  result.cases = 200;
  for (int i = 0; i < 40; ++i)
    note_reason({VerdictKind::refused, i < 20 ? "no <bias>" : "no map " + std::to_string(i), 1,
                 "request " + std::to_string(i)},
                result);
  note_reason({VerdictKind::not_applicable, "the subject lacks fork", 151}, result);
  note_reason({VerdictKind::differs, "no reason", 1}, result);
  std::int64_t told = 0;
  for (const Reason& reason : result.reasons) told += reason.cases;
  EXPECT_EQ(told, 191);
  EXPECT_LE(result.reasons.size(), 10u);
  RunSummary summary = summary_with(result);
  summary.cases = 200;
  EXPECT_NE(summary_markdown(summary).find("200 cases, 9 compared"), std::string::npos);
  EXPECT_NE(summary_markdown(summary).find("| refused | 20 | no &lt;bias>; first: request 0 |"),
            std::string::npos)
      << summary_markdown(summary);
  EXPECT_NE(summary_html(summary).find("200 cases, 9 compared"), std::string::npos);
  EXPECT_NE(summary_html(summary).find("40 refused: no &lt;bias&gt; (20; first: request 0)"),
            std::string::npos);
  EXPECT_EQ(result_json(result).at("compared"), 9);
  const TemporaryFolder folder("kvconform-reports-test");
  write_report(summary, folder.path());
  const PropertyResult again = read_report(folder.path()).results.at(0);
  ASSERT_EQ(again.reasons.size(), result.reasons.size());
  EXPECT_EQ(again.reasons[0].text, "no <bias>");
  EXPECT_EQ(again.reasons[0].cases, 20);
  EXPECT_EQ(again.reasons[0].first, "request 0");
}

TEST(Reports, AnotherKindOfFailureStandsBesideTheOneShown) {
  PropertyResult result = nasty_result(VerdictKind::broken);
  result.failure = Failure{};
  result.failure->smallest = find_property("chunking").generate(1, 0, CaseSize::smoke);
  result.failure->verdict.kind = VerdictKind::broken;
  result.failure->verdict.budget_used = 2.6e20;
  result.failure->verdict.first_difference = Difference{};
  result.failure->verdict.first_difference->expected = std::nan("");
  result.failure->verdict.first_difference->seen = 7;
  result.besides = OtherFailure{VerdictKind::differs, 3, "logit 5 is off", "f/x.json"};
  const std::string text = failure_text(result);
  EXPECT_NE(text.find("besides    differs in 3 cases, the first: logit 5 is off; again: kvconform "
                      "replay f/x.json"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("more than 1e6 times the error budget"), std::string::npos) << text;
  EXPECT_NE(text.find("values     seen 7\n"), std::string::npos) << text;
  EXPECT_NE(summary_html(summary_with(result)).find("logit 5 is off"), std::string::npos);
  EXPECT_EQ(result_json(result).at("besides").at("cases"), 3);
}

TEST(FailureText, NoByteOfASubjectReachesATerminalAsAControlCharacter) {
  const std::string text = failure_text(nasty_result(VerdictKind::broken));
  EXPECT_FALSE(has_forbidden_byte(text)) << text;
  EXPECT_NE(text.find("A sentence with <, & and |."), std::string::npos) << text;
  EXPECT_NE(text.find("second line"), std::string::npos) << text;
  EXPECT_EQ(failure_text(nasty_result(VerdictKind::conforms)), "");
}

}  // namespace
}  // namespace kvconform
