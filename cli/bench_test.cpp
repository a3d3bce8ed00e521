// bench and bench compare from outside: exit codes, messages, reports.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_program.h"

namespace kvconform::cli {
namespace {

using nlohmann::json;

class Bench : public testing::Test {
 protected:
  std::string results(const std::string& name, double bytes, const json& more = json::object()) {
    json benchmark = {{"name", "cuda/kernels/a"},
                      {"run_type", "iteration"},
                      {"cpu_time", 5.0},
                      {"time_unit", "ns"},
                      {"bytes_read", bytes}};
    benchmark.update(more);
    const std::string file = (folder_ / name).string();
    std::ofstream(file) << json{{"context", json::object()}, {"benchmarks", {benchmark}}};
    return file;
  }
  Outcome compare(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"bench", "compare"};
    all.insert(all.end(), words.begin(), words.end());
    return run_program(all);
  }
  TemporaryFolder folder_;
};

TEST_F(Bench, compare_shows_each_number_that_moved) {
  const std::string before = results("before", 96), after = results("after", 128);
  const Outcome outcome = compare({before, after});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_NE(outcome.out.find("cuda/kernels/a bytes_read: 96 -> 128"), std::string::npos);
}

TEST_F(Bench, compare_fails_on_an_increase_where_counts_are_gated) {
  const std::string before = results("before", 96), after = results("after", 128);
  EXPECT_EQ(compare({before, after, "--gate-counts"}).exit_code, 1);
  EXPECT_EQ(compare({after, before, "--gate-counts"}).exit_code, 0);
  EXPECT_EQ(compare({before, before, "--gate-counts"}).exit_code, 0);
}

TEST_F(Bench, compare_does_not_pass_a_gate_on_times_that_say_nothing_of_noise) {
  const std::string before = results("before", 96), after = results("after", 96);
  EXPECT_EQ(compare({before, after}).exit_code, 0);
  EXPECT_EQ(compare({before, after, "--gate", "2"}).exit_code, 3);
}

TEST_F(Bench, compare_fails_on_a_wrong_result) {
  const json wrong = {{"error_occurred", true}, {"error_message", "row 0 differs"}};
  const Outcome outcome = compare({results("before", 1), results("after", 1, wrong)});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("row 0 differs"), std::string::npos);
}

TEST_F(Bench, compare_of_nothing_in_common_is_not_passed) {
  std::ofstream(folder_ / "empty") << R"({"context": {}, "benchmarks": []})";
  EXPECT_EQ(compare({(folder_ / "empty").string(), (folder_ / "empty").string()}).exit_code, 3);
}

TEST_F(Bench, compare_writes_a_report) {
  const std::string report = (folder_ / "report").string();
  EXPECT_EQ(compare({results("a", 1), results("b", 2), "--report", report}).exit_code, 0);
  for (const char* file : {"index.html", "summary.md", "benchmarks.json"})
    EXPECT_TRUE(std::filesystem::exists(report + "/" + file)) << file;
}

void expect_refused(const Outcome& outcome, const std::string& id) {
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_NE(outcome.error.find("error " + id), std::string::npos) << outcome.error;
}

TEST_F(Bench, refuses_what_makes_no_sense) {
  const std::string good = results("good", 1);
  std::ofstream(folder_ / "text") << "no JSON";
  expect_refused(compare({good, (folder_ / "nowhere").string()}), "KV5002");
  expect_refused(compare({good, (folder_ / "text").string()}), "KV5002");
  expect_refused(compare({good, good, "--gate", "-1"}), "KV4003");
  expect_refused(compare({good, good, "--report", folder_.path().string()}), "KV5005");
  expect_refused(compare({good}), "KV4003");
  expect_refused(run_program({"bench", "--size", "tiny"}), "KV4003");
  expect_refused(run_program({"bench", "--filter", "("}), "KV5004");
  expect_refused(run_program({"bench", "compre", good}), "KV4003");
}

TEST_F(Bench, runs_what_the_filter_names_and_writes_googles_json) {
  const std::string report = (folder_ / "report").string();
  const Outcome outcome = run_program({"bench", "--size", "smoke", "--filter",
                                       "copy_rows|rms_norm/width:2048", "--report", report});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
  std::ifstream file(report + "/benchmarks.json");
  const json value = json::parse(file);
  EXPECT_EQ(value.at("benchmarks").size(), 2u);
  EXPECT_TRUE(value.at("context").contains("num_cpus"));
}

TEST_F(Bench, filters_by_the_names_that_it_prints) {
  const Outcome outcome =
      run_program({"bench", "--size", "smoke", "--filter", "^cuda/decode/context:16$"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
  EXPECT_NE(outcome.out.find("cuda/decode/context:16 "), std::string::npos) << outcome.out;
}

TEST_F(Bench, of_nothing_is_not_passed) {
  EXPECT_EQ(run_program({"bench", "--size", "smoke", "--filter", "no such name"}).exit_code, 3);
}

TEST_F(Bench, help_names_the_second_command) {
  EXPECT_NE(run_program({"bench", "--help"}).out.find("bench compare"), std::string::npos);
  EXPECT_NE(run_program({"bench", "compare", "--help"}).out.find("--gate-counts"),
            std::string::npos);
}

}  // namespace
}  // namespace kvconform::cli
