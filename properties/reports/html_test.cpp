// The page says what the report says, needs nothing from anywhere, and shows text from elsewhere as
// text.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "properties/reports/report.h"
#include "properties/runner.h"
#include "properties/temporary_folder.h"

namespace kvconform {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kNasty = "<script>alert(1)</script> \" ' & </style> \x1B[31m \xFF";

/// A report of a fault, written and read again, as `report merge` sees it.
RunSummary failing_run() {
  const TemporaryFolder folder("kvconform-html-test");
  RunOptions options;
  options.subjects = {"fault:window-missing", "reference"};
  options.properties = {"agreement"};
  options.cases = 12;
  options.size = CaseSize::smoke;
  options.jobs = 1;
  options.shrink_seconds = 0.1;
  options.report = folder.path() / "report";
  run_properties(options);
  return read_report(options.report);
}

TEST(Html, HoldsVerdictsFailuresCoverageDistributionAndSettings) {
  RunSummary summary = failing_run();
  const std::string page = summary_html(summary);
  const Failure& failure = *summary.results.at(0).failure;
  for (const std::string part :
       {"Does not conform", "seed 1", "The logits", "fault:window-missing", "differs", "conforms",
        "layer 0, attention", "kvconform replay", "failures/agreement-fault-window-missing-",
        "gemma4: window crossed", "sliding window", "tokens of a row in a call", "sharing",
        "compiler", "class=\"heat\"", "layer 0 attention",
        "<th class=\"subject\">fault:window-missing</th>", "href=\"#failure-0\">differs</a>"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_TRUE(contains(page, describe_case(failure.smallest))) << describe_case(failure.smallest);
}

TEST(Html, NeedsNothingFromAnywhere) {
  const std::string page = summary_html(failing_run());
  for (const char* part : {"<script", "<link", "<img", "<iframe", "@import", "url(", "src="})
    EXPECT_FALSE(contains(page, part)) << part;
  // Links lead to places on the page and to files beside it.
  static const std::regex link("href=\"(?!#|failures/)");
  EXPECT_FALSE(std::regex_search(page, link));
}

TEST(Html, TextFromElsewhereIsTextWhereverItStands) {
  RunSummary summary = failing_run();
  summary.commit = summary.asked.against = kNasty;
  summary.merged = {kNasty};
  summary.asked.models = {kNasty};
  summary.environment[kNasty] = kNasty;
  summary.distribution[kNasty][kNasty] = 3;
  SubjectBooks books;
  books.info = {kNasty, kNasty, {kNasty}, kNasty, {kNasty}};
  books.coverage[kNasty] = {1, 2};
  summary.subjects[kNasty] = books;
  PropertyResult& result = summary.results.at(0);
  result.property = result.sentence = result.subject = result.message = kNasty;
  result.failure->verdict.cause = kNasty;
  result.failure->file = "/reports/" + std::string("\"><script>.json");
  result.failure->verdict.first_difference->part = kNasty;
  result.failure->verdict.deviations.arrays.at(0) = kNasty;
  const std::string page = summary_html(summary);
  EXPECT_FALSE(contains(page, "<script"));
  EXPECT_FALSE(contains(page, "\x1B"));
  EXPECT_FALSE(contains(page, "\xFF"));
  EXPECT_TRUE(contains(page, "&lt;script&gt;alert(1)&lt;/script&gt; &quot; &#39; &amp;"));
  EXPECT_EQ(page.find("</style>"), page.rfind("</style>"));
  const std::string body = page.substr(page.find("<body>"));
  EXPECT_EQ(std::count(body.begin(), body.end(), '<'), std::count(body.begin(), body.end(), '>'));
}

TEST(Html, AnInterruptedRunSaysSoAndWhichPropertiesRan) {
  RunSummary summary = failing_run();
  summary.complete = false;
  summary.interrupted = true;
  summary.results.pop_back();
  const std::string page = summary_html(summary);
  EXPECT_TRUE(contains(page, "Incomplete run"));
  EXPECT_TRUE(contains(page, "agreement"));
  summary.results.clear();
  EXPECT_TRUE(contains(summary_html(summary), "No property has run."));
}

}  // namespace
}  // namespace kvconform
