// The golden commands as people run them: what fails verify, what needs a yes, and that an export
// is what other programs are promised.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "golden/expected_arrays.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kOracle = fs::path(KVCONFORM_SOURCE_DIR) / "golden" / "oracle";

/// A golden folder of its own with two recipes; what a test does to it stays there.
class GoldenFolder {
 public:
  GoldenFolder() {
    fs::create_directories(folder_ / "golden");
    fs::create_directory_symlink(kOracle, folder_ / "golden/oracle");
    set_calls(R"([{"score": [1, 2, 3]}, "open", {"extend": [4, 5]}])");
  }
  void set_calls(const std::string& calls) const {
    std::ofstream(folder_ / "golden/recipes.json")
        << R"({"models": {"m": {"checkpoint": "oracle/gemma4-base"}}, "call_lists": {},
            "recipes": [{"name": "g", "about": "", "model": "m", "calls": )"
        << calls << "}]}";
  }
  int run(const std::string& words) const {
    return run_shell("KVCONFORM_GOLDEN_DIR=" + (folder_ / "golden").string() + " {} golden " +
                     words + " >" + (folder_ / "out").string() + " 2>&1 </dev/null");
  }
  std::string output() const {
    std::ifstream in(folder_ / "out");
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  fs::path path() const { return folder_ / "golden"; }

 private:
  TemporaryFolder folder_;
};

TEST(Golden, list_names_goldens_and_verify_accepts_what_is_approved) {
  EXPECT_NE(succeed({"golden", "list"}).out, "");
  succeed({"golden", "verify"});
}

TEST(Golden, nothing_is_approved_without_a_yes_and_a_recipe_or_a_golden_alone_fails_verify) {
  const GoldenFolder golden;
  EXPECT_EQ(golden.run("verify"), 1) << golden.output();  // a recipe without a golden
  EXPECT_EQ(golden.run("record g"), 0) << golden.output();
  EXPECT_EQ(golden.run("verify"), 1) << golden.output();  // pending is not approved
  EXPECT_EQ(golden.run("approve"), 2);
  EXPECT_NE(golden.output().find("KV4011"), std::string::npos) << golden.output();
  EXPECT_EQ(golden.run("approve --yes --reason 'it is a test'"), 0) << golden.output();
  EXPECT_EQ(golden.run("verify"), 0) << golden.output();
  std::ifstream file(golden.path() / "approved/g.json");
  EXPECT_EQ(nlohmann::json::parse(file)["numerics"]["cuda-float32"]["provenance"]["reason"],
            "it is a test");
  fs::copy(golden.path() / "approved/g.json", golden.path() / "approved/gone.json");
  EXPECT_EQ(golden.run("verify"), 1) << golden.output();  // a golden without a recipe
  EXPECT_EQ(golden.run("prune"), 2) << golden.output();
  EXPECT_EQ(golden.run("prune --yes"), 0) << golden.output();
  EXPECT_EQ(golden.run("verify"), 0) << golden.output();
}

TEST(Golden, verify_takes_a_subject_and_writes_nothing) {
  const GoldenFolder golden;
  golden.run("record g");
  golden.run("approve --yes");
  const auto written = fs::last_write_time(golden.path() / "approved");
  EXPECT_EQ(golden.run("verify --subject cuda:emulated"), 0) << golden.output();
  EXPECT_NE(golden.output().find("1 result, 1 with the approved bits"), std::string::npos);
  EXPECT_EQ(golden.run("verify --subject reference:bfloat16"), 2);
  EXPECT_NE(golden.output().find("KV3014"), std::string::npos) << golden.output();
  golden.set_calls(R"([{"score": [1, 2]}])");
  EXPECT_EQ(golden.run("verify"), 1);
  EXPECT_EQ(fs::last_write_time(golden.path() / "approved"), written);
}

TEST(Golden, an_export_is_scored_to_its_expected_logits) {
  const TemporaryFolder folder;
  for (const std::string name : {"gemma3n-cla", "gemma4-ragged-batch", "oracle-gemma4-hub-form"}) {
    const std::string exported = (folder / name).string(),
                      saved = (folder / "s.safetensors").string();
    succeed({"golden", "export", name, exported});
    const ExpectedArrays expected = read_expected_arrays(exported + "/expected.safetensors");
    std::ifstream file(exported + "/case.json");
    const nlohmann::json call = nlohmann::json::parse(file).at("calls").at(0);
    ASSERT_EQ(call.at("call"), "score") << name;
    const ExpectedArray& logits = expected.at(call.at("expected").get<std::string>());
    std::vector<double> scored;
    for (const auto& row : call.at("tokens")) {  // batch row after batch row
      std::string tokens;
      for (const int token : row) tokens += (tokens.empty() ? "" : ",") + std::to_string(token);
      fs::remove(saved);
      const std::string out = succeed({"score", exported, "--tokens", tokens, "--save", saved}).out;
      const auto values = read_expected_arrays(saved).at("logits").values;
      scored.insert(scored.end(), values.begin(), values.end());
      if (call.at("tokens").size() == 1) {
        EXPECT_EQ(line_with(out, "sha256 "), "sha256 " + call.at("sha256").get<std::string>());
      }
    }
    EXPECT_EQ(scored, logits.values) << name;
  }
}

}  // namespace
}  // namespace kvconform::cli
