// Verify, record, approve, prune, export: on a folder of its own, with a subject whose numbers the
// test sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "golden/approved_file.h"
#include "golden/golden.h"
#include "golden/golden_export.h"
#include "golden/scratch_golden_dir.h"
#include "reference/error.h"

namespace kvconform {
namespace {

constexpr int vocab = 64;

/// Logits that depend on every token so far, and one number that a test can spoil.
struct FakeNumbers {
  int spoiled_call = -1;  ///< of those that yield logits, from 0
  double spoiled_by = 0.0;
  bool other_when_traced = false;
};

/// What the tests' recipes ask for, one row and one session.
class FakeSubject : public Subject {
 public:
  explicit FakeSubject(const FakeNumbers& numbers) : numbers_(numbers) { info_.name = "fake"; }

  const SubjectInfo& info() const override { return info_; }
  ModelId load(const ModelSource&) override { return 1; }
  Output score(ModelId, const TokenRows& tokens, bool trace) override {
    return compute({}, tokens.at(0), trace);
  }
  SessionId open(ModelId, int, int, int) override {
    session_.clear();
    return 1;
  }
  Output extend(SessionId, const TokenRows& tokens, bool trace) override {
    const std::vector<int> before = session_;
    session_.insert(session_.end(), tokens.at(0).begin(), tokens.at(0).end());
    return compute(before, tokens.at(0), trace);
  }
  void rewind(SessionId, const std::vector<int>& lengths) override {
    session_.resize(std::size_t(lengths.at(0)));
  }
  void unload(ModelId) override {}
  SessionId fork(SessionId) override { return 0; }
  void reorder(SessionId, const std::vector<int>&) override {}
  void save(SessionId, const std::filesystem::path&) override {}
  SessionId restore(ModelId, const std::filesystem::path&) override { return 0; }
  CacheReport cache(SessionId) override { return {}; }
  void close(SessionId) override {}

 private:
  Output compute(const std::vector<int>& before, const std::vector<int>& tokens, bool trace) {
    Logits logits{int(tokens.size()), vocab, {}};
    int sum = 0;
    for (int token : before) sum += token;
    for (int token : tokens) {
      sum += token;
      for (int i = 0; i < vocab; ++i) logits.values.push_back(float(sum) / float(i + 3));
    }
    if (++call_ == numbers_.spoiled_call) logits.values.back() += numbers_.spoiled_by;
    if (trace && numbers_.other_when_traced) logits.values[0] += 1;
    const std::vector<double> first(tokens.begin(), tokens.end());
    const std::int64_t rows = logits.positions;
    return {logits, trace ? Trace{{"embedding", {rows}, first},
                                  {"layer.0.output", {rows, vocab}, logits.values},
                                  {"logits", {rows, vocab}, logits.values}}
                          : Trace{}};
  }

  FakeNumbers numbers_;
  SubjectInfo info_;
  std::vector<int> session_;
  int call_ = -1;
};

Numerics fake(const FakeNumbers& numbers = {}) {
  return {"fake", [numbers] { return std::make_unique<FakeSubject>(numbers); }};
}

Numerics broken(std::function<void()> breaks) {
  return {"fake", [breaks]() -> std::unique_ptr<Subject> {
            breaks();
            return nullptr;
          }};
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
    record(recipe(), {fake()}, "abc123");
    approve("g", "it is new");
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
  EXPECT_EQ(record(recipe(), {fake()}, "abc123").at(0).status, GoldenStatus::not_approved);
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
  EXPECT_EQ(result.difference->row.call, 3);
  EXPECT_EQ(result.difference->row.index, 1);
  EXPECT_EQ(result.difference->column, vocab - 1);
  EXPECT_EQ(result.difference->rows, 1);
  EXPECT_EQ(result.difference->calls, 1);
  EXPECT_NEAR(result.difference->largest, 0x1p-24, 0x1p-30);
  EXPECT_NE(
      result.message.find("first in call 3 (extend of session 0), row 0, position 2, token 63"),
      std::string::npos)
      << result.message;
}

TEST_F(GoldenWorkflow, NanDiffersInfinitelyAndIsNeverRecorded) {
  record_and_approve();
  const auto nan = fake({.spoiled_call = 0, .spoiled_by = std::nan("")});
  const GoldenResult result = verify(recipe(), nan);
  EXPECT_EQ(result.status, GoldenStatus::differs);
  EXPECT_TRUE(std::isinf(result.difference.value().largest));
  EXPECT_EQ(error_id([&] { record(recipe(), {nan}, ""); }), "KV3009");
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(GoldenWorkflow, RecordingTheSameBitsAgainLeavesNothingPending) {
  record_and_approve();
  record(recipe(), {fake({.spoiled_call = 0, .spoiled_by = 1.0})}, "");
  EXPECT_EQ(files().size(), 4u);
  EXPECT_EQ(record(recipe(), {fake()}, "").at(0).status, GoldenStatus::same);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(GoldenWorkflow, PendingChangesShowHowFarTheyGo) {
  record_and_approve();
  record(recipe(), {fake({.spoiled_call = 0, .spoiled_by = 0.5})}, "");
  const PendingGolden change = find_pending("g");
  EXPECT_FALSE(change.is_new);
  ASSERT_EQ(change.changes.size(), 1u);
  EXPECT_NE(change.changes[0].sha256, change.changes[0].approved_sha256);
  EXPECT_NEAR(change.changes[0].difference.value().largest, 0.5, 1e-6);
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::same);  // nothing changed yet
  approve("g", "");
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::differs);
}

TEST_F(GoldenWorkflow, AChangedRecipeIsToldApartFromChangedLogits) {
  record_and_approve();
  set_calls(R"([{"score": [1, 2]}, "open", {"extend": [3]}, {"extend": [4]}])");
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::recipe_changed);
  record(recipe(), {fake()}, "");
  EXPECT_NE(find_pending("g").message.find("another recipe"), std::string::npos);
  approve("g", "");
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
  EXPECT_EQ(error_id([] { approve("g", ""); }), "KV3008");
  EXPECT_EQ(error_id([] { find_pending("g"); }), "KV3008");
}

TEST_F(GoldenWorkflow, ASubjectThatBreaksIsReportedAndTheRestStillRuns) {
  const Numerics breaks = broken([] { throw std::runtime_error("no such instruction"); });
  const std::vector<GoldenResult> results = verify_all({breaks, fake()});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].status, GoldenStatus::failed);
  EXPECT_NE(results[0].message.find("no such instruction"), std::string::npos);
  EXPECT_EQ(results[1].status, GoldenStatus::not_approved);
  EXPECT_TRUE(verify_all({breaks}, "other").empty());
}

TEST_F(GoldenWorkflow, WhatASubjectNeverOfferedIsNotApplicableAndWhatItOfferedOnceIsAFailure) {
  const Numerics refuses =
      broken([] { throw SubjectRefusal(SubjectRefusal::Kind::unsupported, "no such family"); });
  EXPECT_EQ(verify_all({refuses}).at(0).status, GoldenStatus::not_applicable);
  EXPECT_EQ(record(recipe(), {refuses}, "").at(0).status, GoldenStatus::not_applicable);
  record_and_approve();
  EXPECT_EQ(verify_all({refuses}).at(0).status, GoldenStatus::failed);
}

TEST_F(GoldenWorkflow, KindsOfNumericsAreToldApart) {
  record_and_approve();
  Numerics other = fake({.spoiled_call = 1, .spoiled_by = 0.25});
  other.kind = "other";
  EXPECT_EQ(verify(recipe(), other).status, GoldenStatus::not_approved);
  record(recipe(), {fake(), other}, "def456");
  const std::string message = find_pending("g").message;
  EXPECT_NE(message.find("fake: the logits keep every bit"), std::string::npos) << message;
  EXPECT_NE(message.find("other: new"), std::string::npos) << message;
  approve("g", "one more kind");
  EXPECT_EQ(verify(recipe(), fake()).status, GoldenStatus::same);
  EXPECT_EQ(verify(recipe(), other).status, GoldenStatus::same);
  const ApprovedGolden golden = read_golden("g", Stage::approved).value();
  EXPECT_EQ(golden.find("fake")->provenance.reason, "it is new");  // its numbers are the old ones
  EXPECT_EQ(golden.find("fake")->provenance.commit, "abc123");
  EXPECT_EQ(golden.find("other")->provenance.reason, "one more kind");
}

TEST_F(GoldenWorkflow, ASubjectThatComputesSomethingElseWhenTracedIsNotRecorded) {
  EXPECT_EQ(error_id([&] { record(recipe(), {fake({.other_when_traced = true})}, ""); }), "KV3012");
  EXPECT_TRUE(files().empty());
}

TEST_F(GoldenWorkflow, ApprovedFilesWithoutARecipeFailVerify) {
  record_and_approve();
  scratch_.write("approved/gone.json", scratch_.read("approved/g.json"));
  const std::vector<GoldenResult> results = verify_all({fake()});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].name, "gone");
  EXPECT_EQ(results[1].status, GoldenStatus::no_recipe);
  EXPECT_FALSE(passes(results[1].status));
  EXPECT_FALSE(passes(GoldenStatus::not_approved));  // the reverse
}

TEST_F(GoldenWorkflow, ADifferenceSaysInWhichCallAndStageItBegins) {
  record_and_approve();
  const GoldenResult result = verify(recipe(), fake({.spoiled_call = 2, .spoiled_by = 0x1p-23}));
  EXPECT_NE(result.message.find("begins in call 3 (extend of session 0), layer 0"),
            std::string::npos)
      << result.message;
  EXPECT_NE(result.message.find("calls without a cache kept their bits"), std::string::npos)
      << result.message;
  record(recipe(), {fake({.spoiled_call = 2, .spoiled_by = 0.5})}, "");
  const std::string message = find_pending("g").message;
  EXPECT_NE(message.find("begins in call 3"), std::string::npos) << message;
}

TEST_F(GoldenWorkflow, ChangesBeforeAnyArithmeticAreNamedFirst) {
  record_and_approve();
  const std::string approved = scratch_.read("approved/g.json");
  const Numerics spoiled = fake({.spoiled_call = 0, .spoiled_by = 1});
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = approved;
    text.replace(text.find(from), from.size(), to);
    scratch_.write("approved/g.json", text);
    return verify(recipe(), spoiled);
  };
  const GoldenResult tokens = replaced("\"tokens\":[[1,2]]", "\"tokens\":[[1,3]]");
  EXPECT_EQ(tokens.cause, GoldenCause::tokens) << tokens.message;
  const GoldenResult config = replaced("\"rms_norm_eps\":1e-05", "\"rms_norm_eps\":1e-06");
  EXPECT_EQ(config.cause, GoldenCause::configuration) << config.message;
  EXPECT_NE(config.message.find("rms_norm_eps: 1e-06 was approved, 1e-05 is read now"),
            std::string::npos)
      << config.message;
  const std::string hash = read_golden("g", Stage::approved)->way.weights_sha256;
  const GoldenResult weights = replaced(hash, std::string(64, '0'));
  EXPECT_EQ(weights.cause, GoldenCause::weights) << weights.message;
}

TEST_F(GoldenWorkflow, AnOutdatedPendingGoldenIsRefused) {
  record(recipe(), {fake()}, "");
  set_calls(R"([{"score": [1, 2, 3]}])");
  EXPECT_EQ(error_id([&] { approve("g", ""); }), "KV3013");
}

TEST_F(GoldenWorkflow, PruningRemovesWhatNoRecipeAsksFor) {
  record_and_approve();
  scratch_.write("approved/old.json", "{}");
  record(recipe(), {fake({.spoiled_call = 0, .spoiled_by = 1.0})}, "");
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
