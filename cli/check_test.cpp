// check, replay and shrink from outside: exit codes, the report, an interrupt, the ways to share
// the work.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_program.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

const fs::path kOracle = fs::path(KVCONFORM_SOURCE_DIR) / "golden" / "oracle";

json summary_of(const fs::path& report) {
  std::ifstream file(report / "summary.json");
  return json::parse(file);
}

std::vector<json> results_of(const fs::path& report) {
  std::ifstream file(report / "results.jsonl");
  std::vector<json> results;
  for (std::string line; std::getline(file, line);) results.push_back(json::parse(line));
  return results;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin + 1, end - begin);
}

// A check with a report in a new folder.
struct Checked {
  TemporaryFolder folder;
  Outcome outcome;
  json summary;
  explicit Checked(Words words, const std::string& interrupt_after = "") {
    const fs::path report = folder / "report";
    words.insert(words.begin(), "check");
    words.insert(words.end(), {"--report", report.string()});
    outcome = run_program(words, interrupt_after);
    if (fs::exists(report / "summary.json")) summary = summary_of(report);
  }
};

TEST(Check, a_program_that_breaks_is_one_verdict_and_exit_code_4) {
  const Checked checked({"--subject", "process:false", "--cases", "5", "--timeout", "2"});
  EXPECT_EQ(checked.outcome.exit_code, 4) << checked.outcome.out << checked.outcome.error;
  EXPECT_NE(checked.outcome.out.find("exited with status 1 when asked for hello"),
            std::string::npos)
      << checked.outcome.out;
  const std::vector<json> results = results_of(checked.folder / "report");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].at("verdict"), "broken");
  EXPECT_EQ(checked.summary.at("exit_code"), 4);
}

TEST(Check, a_timeout_limits_each_request) {
  const auto begin = std::chrono::steady_clock::now();
  const Checked checked({"--subject", "process:exec sleep 1000", "--timeout", "0.5"});
  EXPECT_EQ(checked.outcome.exit_code, 4);
  EXPECT_NE(checked.outcome.out.find("limit 0.5 s"), std::string::npos) << checked.outcome.out;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Serve, a_subject_in_a_process_of_its_own_keeps_its_promises) {
  const std::string server = std::string("process:exec '") + KVCONFORM_PROGRAM + "' serve ";
  const Checked checked({"--subject", server + "reference", "--property", "chunking",  //
                         "--property", "save-and-restore", "--cases", "10"});
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.out << checked.outcome.error;
  EXPECT_EQ(checked.summary.at("counts").at("conforms"), 20) << checked.summary;
  // A difference in the last bits, far within every budget: caught because equal bits are promised.
  const Checked broken({"--subject", server + "fault:sum-order-changes", "--property",
                        "determinism", "--cases", "20"});
  EXPECT_EQ(broken.outcome.exit_code, 1) << broken.outcome.out << broken.outcome.error;
}

TEST(Serve, only_subjects_of_this_program_are_served) {
  for (const char* subject : {"process:false", "nonsense"})
    EXPECT_EQ(run_program({"serve", subject}).exit_code, 2) << subject;
}

TEST(Check, a_healthy_reference_conforms_and_the_last_line_has_the_rate) {
  const Checked checked({"--cases", "5", "--seed", "3"});
  // So few cases meet too few hard classes: that has an exit code of its own.
  EXPECT_TRUE(checked.outcome.exit_code == 0 || checked.outcome.exit_code == 3)
      << checked.outcome.out << checked.outcome.error;
  EXPECT_EQ(checked.summary.at("exit_code"), checked.outcome.exit_code);
  EXPECT_EQ(checked.summary.at("seed"), 3);
  EXPECT_EQ(checked.summary.at("counts").count("differs"), 0u);
  const std::string last = last_line(checked.outcome.out);
  EXPECT_NE(last.find("cases a minute"), std::string::npos) << last;
  for (const json& result : results_of(checked.folder / "report"))
    EXPECT_NE(result.at("verdict"), "differs") << result;
}

TEST(Check, stored_results_have_lines_of_their_own_and_count_no_generated_case) {
  const Checked checked({"--cases", "1"});
  std::int64_t cases = 0;
  bool oracle = false;
  for (const json& result : results_of(checked.folder / "report")) {
    if (result.at("property") == "oracle")
      oracle = true;
    else if (result.at("property") != "golden")
      cases += result.at("cases").get<std::int64_t>();
  }
  EXPECT_TRUE(oracle) << checked.outcome.out;
  EXPECT_EQ(checked.summary.at("cases"), cases);
}

TEST(Check, a_planted_fault_is_exit_code_1_and_its_case_replays_and_shrinks) {
  const Checked checked({"--subject", "fault:own-keys-without-cache", "--cases", "20"});
  ASSERT_EQ(checked.outcome.exit_code, 1) << checked.outcome.out << checked.outcome.error;
  std::string file;
  for (const json& result : results_of(checked.folder / "report"))
    if (result.at("verdict") == "differs") file = result.at("case").get<std::string>();
  const std::string recorded = (checked.folder / "report" / file).string();
  EXPECT_NE(checked.outcome.out.find("kvconform replay"), std::string::npos);
  EXPECT_EQ(run_program({"replay", recorded}).exit_code, 1);
  EXPECT_EQ(run_program({"replay", recorded, "--subject", "reference"}).exit_code, 0);
  const Outcome shrunk = run_program({"shrink", recorded, "--seconds", "2"});
  EXPECT_EQ(shrunk.exit_code, 1) << shrunk.out << shrunk.error;
}

TEST(Check, given_checkpoints_are_checked_the_bidirectional_one_by_what_applies) {
  for (const char* name : {"gemma3n-base", "gemma4-bidirectional-all"}) {
    const Outcome outcome =
        run_program({"check", "--model", (kOracle / name).string(), "--cases", "3"});
    EXPECT_EQ(outcome.exit_code, 0) << name << outcome.out << outcome.error;
  }
}

TEST(Check, nothing_compared_is_exit_code_3) {
  // A model without a cache under a property that is about nothing else.
  const Outcome outcome = run_program({"check", "--cases", "3", "--property", "chunking", "--model",
                                       (kOracle / "gemma4-bidirectional-all").string()});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.out << outcome.error;
}

TEST(Check, an_interrupt_leaves_a_valid_report_marked_incomplete) {
  const Checked checked({"--seconds", "600", "--jobs", "1"}, "cases");
  EXPECT_EQ(checked.outcome.exit_code, 130) << checked.outcome.out << checked.outcome.error;
  ASSERT_TRUE(checked.summary.is_object());
  EXPECT_EQ(checked.summary.at("complete"), false);
  EXPECT_EQ(checked.summary.at("exit_code"), 130);
  std::string page;
  std::getline(std::ifstream(checked.folder / "report" / "index.html"), page, '\0');
  EXPECT_NE(page.find("Incomplete run"), std::string::npos) << page;
}

TEST(Check, stored_data_can_be_chosen_like_a_property) {
  const Checked checked({"--property", "golden"});
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.out << checked.outcome.error;
  const std::vector<json> results = results_of(checked.folder / "report");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].at("property"), "golden");
  EXPECT_GT(results[0].at("cases"), 0);
  EXPECT_EQ(checked.summary.at("asked").at("properties"), json({"golden"}));
}

// Copies the golden folder, damages one file and checks: `damage` is a path within it.
Outcome check_with_damaged(const std::string& damage, const fs::path& report) {
  const TemporaryFolder folder;
  fs::copy(kOracle.parent_path(), folder / "golden", fs::copy_options::recursive);
  std::ofstream(folder / "golden" / damage) << "damaged";
  const fs::path out = folder / "out", error = folder / "error";
  Outcome outcome;
  outcome.exit_code = run_shell("KVCONFORM_GOLDEN_DIR=" + (folder / "golden").string() +
                                " {} check --cases 2 --report " + report.string() + " >" +
                                out.string() + " 2>" + error.string());
  std::getline(std::ifstream(out), outcome.out, '\0');
  std::getline(std::ifstream(error), outcome.error, '\0');
  return outcome;
}

TEST(Check, stored_data_that_cannot_be_read_is_the_exit_code_of_the_report_too) {
  for (const char* damage : {"oracle/gemma3n-base/model.safetensors", "recipes.json"}) {
    const TemporaryFolder folder;
    const Outcome outcome = check_with_damaged(damage, folder / "report");
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.error;
    const json summary = summary_of(folder / "report");
    EXPECT_EQ(summary.at("exit_code"), 2) << damage;
    EXPECT_EQ(summary.at("complete"), false) << damage;
  }
}

// A golden folder in which one approved hash is another. Stored logits would contradict it.
void change_approved_hash(const fs::path& golden, const std::string& name,
                          const char* kind_of_numerics = "reference-float32") {
  fs::copy(kOracle.parent_path(), golden, fs::copy_options::recursive);
  const fs::path file = golden / "approved" / (name + ".json");
  json approved = json::parse(std::ifstream(file));
  for (json& kind : approved.at("numerics")) kind["logits_stored"] = false;
  std::string hash = approved["numerics"][kind_of_numerics]["sha256"];
  hash[0] = hash[0] == '0' ? '1' : '0';
  approved["numerics"][kind_of_numerics]["sha256"] = hash;
  std::ofstream(file) << approved;
  fs::remove(golden / "approved" / (name + ".safetensors"));
}

TEST(Check, goldens_of_the_cuda_engine_are_verified_where_it_is_a_subject) {
  const Checked checked({"--property", "golden", "--subject", "reference", "--subject", "cuda"});
  EXPECT_EQ(checked.outcome.exit_code, 0) << checked.outcome.out << checked.outcome.error;
  const std::vector<json> results = results_of(checked.folder / "report");
  ASSERT_EQ(results.size(), 2u);
  for (const json& result : results) {
    EXPECT_EQ(result.at("property"), "golden");
    EXPECT_EQ(result.at("verdict"), "conforms");
    EXPECT_GE(result.at("cases"), 30);
  }
  EXPECT_EQ(results[1].at("subject"), "cuda");
}

TEST(Check, a_golden_of_one_kind_of_numerics_fails_its_subject_only) {
  const TemporaryFolder folder;
  change_approved_hash(folder / "golden", "gemma3n-cla", "cuda-float32");
  const auto check = [&](const std::string& subject, const std::string& report) {
    return run_shell("KVCONFORM_GOLDEN_DIR=" + (folder / "golden").string() +
                     " {} check --property golden --subject " + subject + " --report " +
                     (folder / report).string() + " >/dev/null 2>&1");
  };
  EXPECT_EQ(check("reference", "reference"), 0);
  EXPECT_EQ(check("cuda", "cuda"), 1);
  const json differs = results_of(folder / "cuda").at(0);
  EXPECT_EQ(differs.at("verdict"), "differs");
  EXPECT_EQ(differs.at("counts").at("differs"), 1);
  EXPECT_NE(differs.at("message").get<std::string>().find("gemma3n-cla"), std::string::npos);
}

TEST(Check, a_golden_can_be_listed_as_a_known_failure_by_its_name) {
  const TemporaryFolder folder;
  change_approved_hash(folder / "golden", "gemma3n-cla");
  const auto check = [&](const std::string& name, const std::string& report) {
    const std::string ledger = (folder / "ledger.json").string();
    std::ofstream(ledger) << R"({"format": "kvconform-known-failures-1", "failures": [
      {"property": "golden", "subject": "reference", "where": {"case": ")"
                          << name << R"("}, "reason": "waits", "link": "#9"}]})";
    return run_shell("KVCONFORM_GOLDEN_DIR=" + (folder / "golden").string() +
                     " {} check --property golden --known-failures " + ledger + " --report " +
                     (folder / report).string() + " >/dev/null 2>&1");
  };
  EXPECT_EQ(check("gemma3n-cla", "listed"), 0);
  const json listed = results_of(folder / "listed").at(0);
  EXPECT_EQ(listed.at("verdict"), "known");
  EXPECT_EQ(listed.at("counts").at("known"), 1);
  EXPECT_EQ(listed.at("known_failures").at(0).at("matched"), 1);
  EXPECT_NE(listed.at("message").get<std::string>().find("waits (#9)"), std::string::npos);
  EXPECT_EQ(check("gemma3n-yoco", "another"), 1);
  EXPECT_EQ(results_of(folder / "another").at(0).at("verdict"), "differs");
}

TEST(Check, an_oracle_case_listed_as_a_known_failure_fails_the_run_once_it_agrees) {
  const TemporaryFolder folder;
  const std::string ledger = (folder / "ledger.json").string();
  std::ofstream(ledger) << R"({"format": "kvconform-known-failures-1", "failures": [
    {"property": "oracle", "subject": "reference", "reason": "was repaired", "link": "#9"}]})";
  const Checked checked({"--property", "oracle", "--known-failures", ledger});
  EXPECT_EQ(checked.outcome.exit_code, 1) << checked.outcome.out;
  EXPECT_NE(checked.outcome.out.find("was repaired (#9)"), std::string::npos)
      << checked.outcome.out;
}

TEST(Check, an_output_that_cannot_be_written_is_the_exit_code_of_the_report_too) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_shell("{} check --cases 2 --property chunking --report " +
                      (folder / "report").string() + " >/dev/full 2>/dev/null"),
            5);
  EXPECT_EQ(summary_of(folder / "report").at("exit_code"), 5);
}

TEST(Check, a_shard_without_cases_compared_nothing_and_says_so) {
  const Checked checked({"--cases", "2", "--shard", "3/3", "--property", "chunking"});
  EXPECT_EQ(checked.outcome.exit_code, 3) << checked.outcome.out;
  EXPECT_EQ(checked.outcome.out.find("conforms"), std::string::npos) << checked.outcome.out;
  EXPECT_NE(last_line(checked.outcome.out).find("nothing was compared"), std::string::npos);
  EXPECT_EQ(results_of(checked.folder / "report").at(0).at("verdict"), "nothing compared");
}

TEST(Check, going_on_with_other_options_is_refused) {
  const Checked checked({"--cases", "2", "--property", "chunking"});
  const std::string report = (checked.folder / "report").string();
  const auto resume = [&](Words words) {
    words.insert(words.begin(), {"check", "--cases", "2", "--resume", "--report", report});
    return run_program(words);
  };
  EXPECT_EQ(resume({"--property", "chunking"}).exit_code, 0);
  const Outcome property = resume({"--property", "agreement"});
  EXPECT_EQ(property.exit_code, 2);
  EXPECT_NE(property.error.find("--property: it has \"chunking\", now asked for is \"agreement\""),
            std::string::npos)
      << property.error;
  EXPECT_EQ(resume({"--property", "chunking", "--subject", "reference:double"}).exit_code, 2);
}

TEST(Check, the_output_says_what_was_held_against_what) {
  const Outcome outcome =
      run_program({"check", "--cases", "2", "--property", "chunking", "--property", "agreement"});
  EXPECT_NE(outcome.out.find("held against reference:double: agreement\n"), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("held against the subject itself: chunking\n"), std::string::npos)
      << outcome.out;
}

TEST(Check, without_a_report_the_output_names_the_folder_of_the_failing_cases) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string(), root = (folder / "tmp").string();
  fs::create_directory(root);
  const std::string run = "cd /proc && TMPDIR=" + root + " {} check --cases 5 --property agreement";
  EXPECT_EQ(run_shell(run + " >" + out + " 2>&1"), 0);  // nothing is written into the folder
  EXPECT_TRUE(fs::is_empty(root));
  EXPECT_EQ(run_shell(run + " --subject fault:window-missing >" + out + " 2>&1"), 1);
  std::string text;
  std::getline(std::ifstream(out), text, '\0');
  EXPECT_NE(text.find("failing cases are kept in " + root + "/kvconform-failures-"),
            std::string::npos)
      << text;
}

TEST(Replay, a_timeout_limits_the_requests_of_replay_and_shrink) {
  const TemporaryFolder folder;
  const Checked checked({"--subject", "fault:own-keys-without-cache", "--cases", "20", "--property",
                         "cache-independence"});
  const std::string file = results_of(checked.folder / "report").at(0).at("case");
  const std::string recorded = (checked.folder / "report" / file).string();
  for (const std::string command : {"replay", "shrink"}) {
    const Outcome outcome = run_program(
        {command, recorded, "--subject", "process:exec sleep 1000", "--timeout", "0.3"});
    EXPECT_EQ(outcome.exit_code, 4) << outcome.out << outcome.error;
    EXPECT_NE(outcome.out.find("limit 0.3 s"), std::string::npos) << outcome.out;
  }
}

TEST(Check, a_subject_whose_name_is_not_utf8_is_refused) {
  const Outcome outcome = run_program({"check", "--subject", "process:./caf\xE9", "--cases", "1"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.error.find("KV2106"), std::string::npos) << outcome.error;
}

TEST(Check, a_known_failure_fails_no_run_until_it_conforms) {
  const TemporaryFolder folder;
  const std::string ledger = (folder / "ledger.json").string();
  std::ofstream(ledger) << R"({"format": "kvconform-known-failures-1", "failures": [
    {"property": "agreement", "subject": "fault:window-missing", "reason": "waits", "link": "#7"},
    {"property": "agreement", "subject": "reference", "reason": "was repaired", "link": "#8"}]})";
  const Words words = {"--property", "agreement", "--cases", "10", "--known-failures", ledger};
  Words faulty = words, healthy = words;
  faulty.insert(faulty.end(), {"--subject", "fault:window-missing"});
  const Checked known(faulty);
  EXPECT_EQ(known.outcome.exit_code, 0) << known.outcome.out;
  EXPECT_NE(known.outcome.out.find("known failure"), std::string::npos) << known.outcome.out;
  EXPECT_NE(known.outcome.out.find("conforms but for"), std::string::npos) << known.outcome.out;
  EXPECT_NE(known.outcome.out.find("reference is not among the subjects"), std::string::npos)
      << known.outcome.out;
  EXPECT_EQ(results_of(known.folder / "report").at(0).at("verdict"), "known");
  const Checked repaired(healthy);
  EXPECT_EQ(repaired.outcome.exit_code, 1) << repaired.outcome.out;
  EXPECT_NE(repaired.outcome.out.find("was repaired (#8)"), std::string::npos);
}

TEST(Check, failing_cases_of_reports_beside_and_of_named_folders_run_first) {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& name, Words words) {
    words.insert(words.begin(), {"check", "--property", "agreement"});
    words.insert(words.end(), {"--report", (folder / name).string()});
    run_program(words);
    return results_of(folder / name).at(0);
  };
  const auto kept = [](const json& result) {
    std::int64_t sum = 0;
    if (result.contains("kept"))
      for (const auto& [verdict, count] : result.at("kept").items()) sum += count.get<int>();
    return sum;
  };
  const std::int64_t checked_in = kept(check("first", {"--cases", "1", "--seed", "2"}));
  const json failing = check("second", {"--cases", "12", "--subject", "fault:window-missing"});
  ASSERT_EQ(failing.at("verdict"), "differs");
  EXPECT_EQ(kept(check("third", {"--cases", "1"})), checked_in + 1);
  EXPECT_EQ(kept(check("elsewhere/fourth", {"--cases", "1"})), checked_in);
  const std::string failures = (folder / "second" / "failures").string();
  EXPECT_EQ(kept(check("elsewhere/deep/fifth", {"--cases", "1", "--regressions", failures})),
            checked_in + 1);
}

TEST(ReportMerge, shards_become_the_whole_run_with_its_exit_code) {
  const TemporaryFolder folder;
  Words merge = {"report", "merge"};
  const Words words = {"check",      "--subject", "fault:window-missing",
                       "--property", "agreement", "--cases",
                       "12",         "--seed",    "4"};
  for (const std::string shard : {"1", "2", "3"}) {
    Words part = words;
    merge.push_back((folder / shard).string());
    part.insert(part.end(), {"--shard", shard + "/3", "--report", merge.back()});
    run_program(part);
  }
  const std::string whole = (folder / "whole").string(), merged = (folder / "merged").string();
  Words single = words;
  single.insert(single.end(), {"--report", whole});
  const int code = run_program(single).exit_code;
  merge.insert(merge.end(), {"--report", merged});
  const Outcome outcome = run_program(merge);
  EXPECT_EQ(outcome.exit_code, code) << outcome.out << outcome.error;
  EXPECT_EQ(code, 1);
  EXPECT_EQ(summary_of(merged).at("counts"), summary_of(whole).at("counts"));
  EXPECT_EQ(summary_of(merged).at("coverage"), summary_of(whole).at("coverage"));
  const std::string replayed = results_of(merged).at(0).at("case");
  EXPECT_EQ(run_program({"replay", merged + "/" + replayed}).exit_code, 1);
  EXPECT_TRUE(fs::exists(fs::path(merged) / "index.html"));
  const Outcome missing = run_program(
      {"report", "merge", (folder / "1").string(), "--report", (folder / "no").string()});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.error.find("KV2223"), std::string::npos) << missing.error;
  EXPECT_FALSE(fs::exists(folder / "no"));
}

TEST(Check, list_names_each_property_with_a_sentence) {
  const Outcome outcome = run_program({"check", "--list"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("needs:"), std::string::npos);
}

}  // namespace
}  // namespace kvconform::cli
