// Verify, record, approve, prune, export: on a folder of its own, with a runner whose numbers the
// test sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/approved_file.h"
#include "golden/golden.h"
#include "golden/scratch_golden_dir.h"
#include "reference/error.h"

namespace kvconform {
namespace {

constexpr int vocab = 64;

/// Logits that depend on every token so far, and one number that a test can spoil.
struct FakeNumbers {
  int spoiled_call = -1;  ///< of those that yield logits, from 0
  double spoiled_by = 0.0;
};

class FakeRunner : public GoldenRunner {
 public:
  explicit FakeRunner(const FakeNumbers& numbers) : numbers_(numbers) {}

  Logits score(const std::vector<int>& tokens) override { return compute({}, tokens); }
  void open(int) override { session_.clear(); }
  void rewind(int length) override { session_.resize(std::size_t(length)); }
  Logits extend(const std::vector<int>& tokens) override {
    const std::vector<int> before = session_;
    session_.insert(session_.end(), tokens.begin(), tokens.end());
    return compute(before, tokens);
  }

 private:
  Logits compute(const std::vector<int>& before, const std::vector<int>& tokens) {
    Logits logits{int(tokens.size()), vocab, {}};
    int sum = 0;
    for (int token : before) sum += token;
    for (int token : tokens) {
      sum += token;
      for (int i = 0; i < vocab; ++i) logits.values.push_back(float(sum) / float(i + 3));
    }
    if (++call_ == numbers_.spoiled_call) logits.values.back() += numbers_.spoiled_by;
    return logits;
  }

  FakeNumbers numbers_;
  std::vector<int> session_;
  int call_ = -1;
};

RunnerFactory fake(const FakeNumbers& numbers = {}) {
  return [numbers](const auto&) { return std::make_unique<FakeRunner>(numbers); };
}

class GoldenWorkflow : public testing::Test {
 protected:
  GoldenWorkflow() {
    set_calls(R"([{"score": [1, 2]}, "open", {"extend": [3]}, {"extend": [4, 5]}])");
  }

  void set_calls(const std::string& calls) {
    scratch_.write("recipes.json", R"({"models": {"m": {"checkpoint": "mlx-lm-1674/script-b"}},
        "call_lists": {}, "recipes": [{"name": "g", "about": "words", "model": "m", "calls": )" +
                                       calls + "}]}");
  }
  Recipe recipe() const { return find_recipe("g"); }
  void record_and_approve() {
    record(recipe(), fake(), "abc123");
    approve("g");
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(scratch_.path() / "approved")) return names;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path() / "approved")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  template <typename Call>
  static std::string error_id(Call call) {
    try {
      call();
      return "none";
    } catch (const Error& e) {
      return e.id();
    }
  }

  ScratchGoldenDir scratch_;
};

TEST_F(GoldenWorkflow, VerifyingWhatWasNeverApprovedSaysSoAndWritesNothing) {
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::not_approved);
  EXPECT_TRUE(files().empty());
}

TEST_F(GoldenWorkflow, RecordingWritesAPendingFileAndApprovesNothing) {
  EXPECT_EQ(record(recipe(), fake(), "abc123").status, GoldenStatus::not_approved);
  EXPECT_EQ(files(), (std::vector<std::string>{"g.pending.json", "g.pending.safetensors"}));
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::not_approved);
  ASSERT_EQ(list_pending().size(), 1u);
  EXPECT_TRUE(list_pending()[0].is_new);
}

TEST_F(GoldenWorkflow, ApprovingMakesThePendingResultTheTruth) {
  record_and_approve();
  EXPECT_EQ(files(), (std::vector<std::string>{"g.json", "g.safetensors"}));
  const GoldenResult result = verify(recipe(), fake());
  EXPECT_EQ(result.status, GoldenStatus::same);
  EXPECT_EQ(result.sha256, result.approved_sha256);
  const std::string json = scratch_.read("approved/g.json");
  for (const char* part : {"\"abc123\"", "\"words\"", "\"greedy\":[0,0]", "\"compiler\"",
                           "\"first_logits_of_last_row\":[4.0,"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in\n" << json;
  }
}

TEST_F(GoldenWorkflow, ADifferenceOfOneBitSaysWhereAndHowFar) {
  record_and_approve();
  const GoldenResult result = verify(recipe(), fake({.spoiled_call = 2, .spoiled_by = 0x1p-24}));
  EXPECT_EQ(result.status, GoldenStatus::differs);
  ASSERT_TRUE(result.difference);
  EXPECT_EQ(result.difference->call, 3);
  EXPECT_EQ(result.difference->row, 1);
  EXPECT_EQ(result.difference->column, vocab - 1);
  EXPECT_EQ(result.difference->rows, 1);
  EXPECT_EQ(result.difference->calls, 1);
  EXPECT_NEAR(result.difference->largest, 0x1p-24, 0x1p-30);
  EXPECT_NE(result.message.find("call 3, row 1, token 63"), std::string::npos) << result.message;
}

TEST_F(GoldenWorkflow, NanDiffersInfinitelyAndIsNeverRecorded) {
  record_and_approve();
  const auto nan = fake({.spoiled_call = 0, .spoiled_by = std::nan("")});
  const GoldenResult result = verify(recipe(), nan);
  EXPECT_EQ(result.status, GoldenStatus::differs);
  EXPECT_TRUE(std::isinf(result.difference.value().largest));
  EXPECT_EQ(error_id([&] { record(recipe(), nan, ""); }), "KV3009");
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(GoldenWorkflow, RecordingTheSameBitsAgainLeavesNothingPending) {
  record_and_approve();
  record(recipe(), fake({.spoiled_call = 0, .spoiled_by = 1.0}), "");
  EXPECT_EQ(files().size(), 4u);
  EXPECT_EQ(record(recipe(), fake(), "").status, GoldenStatus::same);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(GoldenWorkflow, PendingChangesShowHowFarTheyGo) {
  record_and_approve();
  record(recipe(), fake({.spoiled_call = 0, .spoiled_by = 0.5}), "");
  const PendingGolden change = find_pending("g");
  EXPECT_FALSE(change.is_new);
  EXPECT_NE(change.sha256, change.approved_sha256);
  EXPECT_NEAR(change.difference.value().largest, 0.5, 1e-6);
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::same);  // nothing changed yet
  approve("g");
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::differs);
}

TEST_F(GoldenWorkflow, AChangedRecipeIsToldApartFromChangedLogits) {
  record_and_approve();
  set_calls(R"([{"score": [1, 2]}, "open", {"extend": [3]}, {"extend": [4]}])");
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::recipe_changed);
  record(recipe(), fake(), "");
  EXPECT_NE(find_pending("g").message.find("other calls"), std::string::npos);
  approve("g");
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::same);
}

TEST_F(GoldenWorkflow, LogitsTooLargeToKeepAreStillToldApartByCall) {
  set_calls(R"([{"score": 150}, {"score": 100}])");  // 250 · 64 · 4 bytes
  record_and_approve();
  EXPECT_EQ(files(), std::vector<std::string>{"g.json"});
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::same);
  const GoldenResult result = verify(recipe(), fake({.spoiled_call = 1, .spoiled_by = 1.0}));
  EXPECT_EQ(result.status, GoldenStatus::differs);
  EXPECT_NE(result.message.find("first in call 1"), std::string::npos) << result.message;
}

TEST_F(GoldenWorkflow, DamagedFilesAreRefused) {
  record_and_approve();
  const std::string json = scratch_.read("approved/g.json");
  const auto verify_id = [&] { return error_id([&] { verify(recipe(), fake()); }); };
  std::string other = json;
  other[other.find("\"sha256\": \"") + 11] ^= 1;
  scratch_.write("approved/g.json", other);
  EXPECT_EQ(verify_id(), "KV3006");
  scratch_.write("approved/g.json", json.substr(0, json.size() / 2));
  EXPECT_EQ(verify_id(), "KV3006");
  scratch_.write("approved/g.json", json);
  scratch_.write("approved/g.safetensors", "");
  EXPECT_EQ(verify_id(), "KV3003");
}

TEST_F(GoldenWorkflow, ApprovingNothingIsRefused) {
  EXPECT_EQ(error_id([] { approve("g"); }), "KV3008");
  EXPECT_EQ(error_id([] { find_pending("g"); }), "KV3008");
}

TEST_F(GoldenWorkflow, ARunnerThatBreaksIsReportedAndTheRestStillRuns) {
  const RunnerFactory broken = [](const auto&) -> std::unique_ptr<GoldenRunner> {
    throw std::runtime_error("no such instruction");
  };
  const std::vector<GoldenResult> results = verify_all(broken);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].status, GoldenStatus::failed);
  EXPECT_NE(results[0].message.find("no such instruction"), std::string::npos);
  EXPECT_TRUE(verify_all(broken, "other").empty());
}

TEST_F(GoldenWorkflow, PruningRemovesWhatNoRecipeAsksFor) {
  record_and_approve();
  scratch_.write("approved/old.json", "{}");
  record(recipe(), fake({.spoiled_call = 0, .spoiled_by = 1.0}), "");
  EXPECT_EQ(prune().size(), 3u);
  EXPECT_EQ(files(), (std::vector<std::string>{"g.json", "g.safetensors"}));
}

TEST_F(GoldenWorkflow, AnExportIsACheckpointWithCallsAndLogits) {
  const auto folder = scratch_.path() / "export";
  export_golden(recipe(), fake(), folder);
  EXPECT_EQ(Checkpoint::open(folder)->config().vocab_size, vocab);
  const ExpectedArrays arrays = read_expected_arrays(folder / "expected.safetensors");
  EXPECT_EQ(arrays.at("0.logits").shape, (std::vector<std::int64_t>{2, vocab}));
  EXPECT_EQ(arrays.count("1.logits"), 0u);
  EXPECT_NE(scratch_.read("export/case.json").find("\"extend\""), std::string::npos);
}

}  // namespace
}  // namespace kvconform
