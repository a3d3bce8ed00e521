// Signals from outside: what ends at once, with which exit code, and that nothing half-written and
// no temporary folder stays. Each command is started by a shell that sends the signal.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_program.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;

const fs::path kOracle = fs::path(KVCONFORM_SOURCE_DIR) / "golden" / "oracle";

/// Starts the program with `words`, waits until the shell condition holds, sends the signals one
/// after the other and returns its exit code.
int signalled(const std::string& words, const std::string& until, const std::string& signals) {
  return run_shell("bash -c '{} " + words + " >/dev/null 2>&1 & pid=$!; for i in $(seq 600); do " +
                   until + " && break; sleep 0.05; done; for s in " + signals +
                   "; do kill -$s $pid; sleep 0.3; done; wait $pid'");
}

std::size_t entries_of(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Interrupt, model_create_leaves_nothing_behind) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  for (const std::string name : {"new/deeper", "empty"}) {
    const std::string target = (folder / name).string();
    // About a GB: seconds of writing, of which the first piece is seen.
    const std::string words =
        "model create " + target + " --set vocab_size=4000000 --set hidden_size=64";
    for (const std::string signal : {"INT", "TERM", "HUP"}) {
      EXPECT_EQ(signalled(words, "compgen -G " + target + "/.model* >/dev/null", signal), 130)
          << target << signal;
      EXPECT_FALSE(fs::exists(folder / "new")) << signal;
      EXPECT_EQ(entries_of(folder / "empty"), 0u) << signal;
    }
  }
}

TEST(Interrupt, a_folder_that_holds_something_is_never_touched) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << "{}";
  for (const char* wait : {"true", "sleep 0.005", "sleep 0.01", "sleep 0.02", "sleep 0.04"}) {
    const int code = signalled("model create " + folder.path().string(), wait, "INT");
    EXPECT_TRUE(code == 2 || code == 130) << code;  // refused, unless the signal came first
    EXPECT_TRUE(fs::exists(folder / "config.json"));
  }
}

TEST(Interrupt, plan_and_score_end_with_130) {
  const TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(run_shell("mkfifo " + pipe), 0);
  EXPECT_EQ(signalled("plan " + pipe, "sleep 0.5", "INT"), 130);
  const std::string tokens = (folder / "tokens").string();
  {
    std::ofstream file(tokens);
    for (int i = 0; i < 60000; ++i) file << (i == 0 ? "" : ",") << i % 7;
  }
  const std::string saved = (folder / "logits.safetensors").string();
  const std::string model = (kOracle / "gemma3n-base").string();
  EXPECT_EQ(signalled("score " + model + " --tokens-file " + tokens + " --save " + saved,
                      "sleep 0.5", "TERM"),
            130);
  EXPECT_EQ(entries_of(folder.path()), 2u);  // the pipe and the tokens
}

TEST(Interrupt, check_writes_its_report_on_each_of_the_signals) {
  for (const std::string signal : {"INT", "TERM", "HUP"}) {
    const TemporaryFolder folder;
    const std::string report = (folder / "report").string();
    EXPECT_EQ(signalled("check --seconds 600 --jobs 1 --report " + report,
                        "test -e " + report + "/running/running-0.json", signal),
              130)
        << signal;
    std::ifstream file(folder / "report" / "summary.json");
    const nlohmann::json summary = nlohmann::json::parse(file);
    EXPECT_EQ(summary.at("complete"), false);
    EXPECT_EQ(summary.at("exit_code"), 130);
  }
}

TEST(Interrupt, what_a_killed_run_leaves_is_removed_by_the_next_one) {
  const TemporaryFolder folder;
  const std::string root = folder.path().string();
  EXPECT_EQ(run_shell("bash -c 'export TMPDIR=" + root +
                      "; {} check --seconds 600 --jobs 1 >/dev/null 2>&1 & pid=$!; "
                      "until ls " +
                      root +
                      "/kvconform-run-$pid-* >/dev/null 2>&1; do sleep 0.05; done; "
                      "kill -KILL $pid; wait $pid'"),
            137);
  EXPECT_EQ(entries_of(folder.path()), 1u);
  EXPECT_EQ(run_shell("TMPDIR=" + root + " {} doctor >/dev/null"), 0);
  EXPECT_EQ(entries_of(folder.path()), 0u);
}

TEST(Interrupt, nohup_is_respected) {
  const TemporaryFolder folder;
  const std::string report = (folder / "report").string();
  EXPECT_EQ(run_shell("bash -c 'trap \"\" HUP; {} check --cases 3 --property agreement --report " +
                      report + " >/dev/null 2>&1 & pid=$!; kill -HUP $pid; wait $pid'"),
            0);
}

}  // namespace
}  // namespace kvconform::cli
