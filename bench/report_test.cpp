// The report: readable without network, escaped, complete; plots that hold what they are given.
#include "bench/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <sstream>

#include "bench/plot.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform::bench {
namespace {

using nlohmann::json;

Results some_results() {
  json benchmarks = json::array();
  const auto add = [&](const std::string& name, double time, const json& counters) {
    json value = {{"name", name}, {"run_name", name}, {"cpu_time", time}, {"time_unit", "ns"}};
    if (!counters.is_null()) value.update(counters);
    benchmarks.push_back(value);
  };
  for (int tokens : {16, 64})
    add("reference/prefill/tokens:" + std::to_string(tokens), 1e6 * tokens,
        {{"bytes_needed", 1e6}, {"multiply_adds", 1e7}, {"tokens_per_second", 1e4}});
  add("reference/sharing/decode/gemma3n_text/layers:9/shared:0/context:256", 2e6, {});
  add("reference/sharing/decode/gemma3n_text/layers:9/shared:3/context:256", 1e6, {});
  add("cuda/kernels/projection/<b>&", 1, {{"bytes_read", 300}, {"bytes_needed", 100}});
  return results_from(
      {{"context", {{"copied_bytes_per_second", "1e10"}, {"multiply_adds_per_second", "1e10"}}},
       {"benchmarks", benchmarks}},
      "test");
}

bool is_xml(const std::string& text) {
  return pugi::xml_document().load_string(text.c_str());
}

TEST(Report, is_one_page_that_asks_nobody) {
  const std::string page = html(run_document(some_results(), {}));
  for (const char* foreign : {"http://", "https://", "<script", "<link", "<img", "src=", "url("})
    EXPECT_EQ(page.find(foreign), std::string::npos) << foreign;
  EXPECT_NE(page.find("<svg"), std::string::npos);
}

TEST(Report, escapes_names) {
  const std::string page = html(run_document(some_results(), {}));
  EXPECT_NE(page.find("projection/&lt;b&gt;&amp;"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
}

TEST(Report, shows_what_a_kernel_moves_against_what_it_needs) {
  const std::string text = markdown(run_document(some_results(), {}));
  EXPECT_NE(text.find("| 3.00 |"), std::string::npos);
  EXPECT_NE(text.find("| 50 % |"), std::string::npos);  // of the time without sharing
}

TEST(Report, of_nothing_is_still_a_report) {
  const Results nothing =
      results_from({{"context", json::object()}, {"benchmarks", json::array()}}, "");
  EXPECT_NE(html(run_document(nothing, {})).find("</html>"), std::string::npos);
}

TEST(Plots, are_well_formed_and_finite_whatever_the_numbers) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& points :
       std::vector<std::vector<std::pair<double, double>>>{{},
                                                           {{1, 1}},
                                                           {{0, 1}, {1, 0}, {-1, -1}},
                                                           {{1, infinity}, {NAN, 2}, {3, 4}},
                                                           {{1e-9, 1e12}, {1e9, 1e-12}}}) {
    const std::string plot =
        svg(LogPlot{"a < b", "x & y", "\"z\"", {{"s", points, true, true, false, {}}}});
    EXPECT_TRUE(is_xml(plot)) << plot;
    for (const char* bad : {"nan", "inf"}) EXPECT_EQ(plot.find(bad), std::string::npos) << plot;
  }
  const std::string bars =
      svg(BarPlot{"t", "x", {{"<b>", 1.05, "1.05", 1.02, 1.08}, {"c", 0.9, "", 0, 0}}, 1});
  EXPECT_TRUE(is_xml(bars)) << bars;
}

TEST(Plots, place_larger_values_further_up_and_right) {
  const std::string plot =
      svg(LogPlot{"t", "x", "y", {{"s", {{1, 1}, {10, 10}}, false, true, false, {}}}});
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(plot.c_str()));
  std::vector<std::pair<double, double>> centres;
  for (const auto& node : document.child("svg").children("circle"))
    centres.emplace_back(node.attribute("cx").as_double(), node.attribute("cy").as_double());
  ASSERT_EQ(centres.size(), 2u);
  EXPECT_LT(centres[0].first, centres[1].first);
  EXPECT_GT(centres[0].second, centres[1].second);  // y grows downwards
}

TEST(ReportFolder, must_be_new_or_empty) {
  const TemporaryFolder folder("kvconform-bench-report");
  open_bench_report(folder.path());
  write_bench_report(folder.path(), run_document(some_results(), {}), json::object());
  for (const char* file : {"benchmarks.json", "summary.md", "index.html"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() / file)) << file;
  try {
    open_bench_report(folder.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), "KV5005");
  }
}

/// The README's table is what one command prints: `kvconform bench --figures`.
TEST(Readme, holds_the_figures_that_the_program_computes) {
  std::ifstream file(std::string(KVCONFORM_SOURCE_DIR) + "/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(markdown(sharing_figures())), std::string::npos)
      << "replace the table by:\n"
      << markdown(sharing_figures());
}

}  // namespace
}  // namespace kvconform::bench
