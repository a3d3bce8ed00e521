// A verdict names the request that it came of, with the lengths of its rows; and no other.
#include "properties/noted_subject.h"

#include <gtest/gtest.h>

#include <regex>

#include "properties/case_judge.h"
#include "properties/faults/wrapped_subject.h"
#include "properties/history.h"
#include "properties/subject_registry.h"
#include "properties/yardstick.h"

namespace kvconform {
namespace {

using Kind = SubjectRefusal::Kind;

/// Says nothing of the request that it refuses.
class Curt : public Subject {
 public:
  const SubjectInfo& info() const override { return info_; }
  ModelId load(const ModelSource&) override { return 1; }
  void unload(ModelId) override {}
  Output score(ModelId, const TokenRows&, bool) override { throw SubjectBroken("gone"); }
  SessionId open(ModelId, int, int capacity, int) override { return give(capacity); }
  Output extend(SessionId, const TokenRows& tokens, bool) override {
    give(tokens[0].empty() ? -1 : 0);
    return {};
  }
  void rewind(SessionId, const std::vector<int>& lengths) override { give(lengths[0] - 2); }
  SessionId fork(SessionId) override { return give(0); }
  void reorder(SessionId, const std::vector<int>& rows) override { give(-rows[0]); }
  void save(SessionId, const std::filesystem::path&) override {}
  SessionId restore(ModelId, const std::filesystem::path&) override { return give(-refuses_); }
  CacheReport cache(SessionId) override { throw SubjectRefusal(Kind::unsupported, "no"); }
  void close(SessionId) override {}

  void refuse_restores() { refuses_ = 1; }

 private:
  SessionId give(int number) {
    if (number < 0) throw SubjectRefusal(Kind::invalid, "no");
    return ++next_;
  }
  SubjectInfo info_;
  SessionId next_ = 0;
  int refuses_ = 0;
};

class NotedRequests : public testing::Test {
 protected:
  /// The request that a verdict about the refusal of `request` names.
  template <class Request>
  std::string named(Request request, VerdictKind kind = VerdictKind::refused,
                    const std::string& message = "no") {
    EXPECT_ANY_THROW(request());
    return explained(kind, message).request;
  }
  Verdict explained(VerdictKind kind, const std::string& message) const {
    Verdict verdict;
    verdict.kind = kind;
    verdict.message = message;
    log_->explain(verdict);
    return verdict;
  }

  std::shared_ptr<RequestLog> log_ = std::make_shared<RequestLog>();
  std::unique_ptr<Curt> owned_ = std::make_unique<Curt>();
  Curt& curt_ = *owned_;
  NotedSubject subject_{std::move(owned_), log_};
};

TEST_F(NotedRequests, AreNamedWithTheShapesTheyHad) {
  EXPECT_EQ(named([&] { subject_.open(1, 2, -1, 3); }), "open with batch 2, capacity -1, start 3");
  const auto session = subject_.open(1, 2, 12, 0);
  subject_.extend(session, {{1, 2, 3}, {4}}, false);
  EXPECT_EQ(named([&] {
              subject_.extend(session, {{}, {5, 6}}, false);
            }),
            "extend of rows of [3, 1] tokens by [0, 2]");
  EXPECT_EQ(named([&] {
              subject_.rewind(session, {1, 0});
            }),
            "rewind of rows of [3, 1] tokens to [1, 0]");
  subject_.rewind(session, {2, 0});
  EXPECT_EQ(named([&] { subject_.cache(session); }), "cache report of rows of [2, 0] tokens");
  EXPECT_EQ(named([&] {
              subject_.reorder(session, {1, 1});
            }),
            "reorder of rows of [2, 0] tokens: rows [1, 1]");
  subject_.reorder(session, {0, 0});
  const auto copy = subject_.fork(session);
  subject_.extend(copy, {{1}, {2}}, false);
  EXPECT_EQ(named([&] { subject_.cache(copy); }), "cache report of rows of [3, 3] tokens");
  EXPECT_EQ(named([&] { subject_.cache(session); }), "cache report of rows of [2, 2] tokens");
  subject_.save(session, "file");
  const auto again = subject_.restore(1, "file");
  EXPECT_EQ(named([&] { subject_.cache(again); }), "cache report of rows of [2, 2] tokens");
  curt_.refuse_restores();
  EXPECT_EQ(named([&] { subject_.restore(1, "file"); }), "restore of rows of [2, 2] tokens");
  EXPECT_EQ(named(
                [&] {
                  subject_.score(1, {{1}, {2, 3}}, false);
                },
                VerdictKind::broken, "gone"),
            "score of rows of [1, 2] tokens");
}

TEST_F(NotedRequests, AreNamedWithTheCallOfTheCase) {
  CallRunner runner(subject_, 1);
  Call open, extend, rewind;
  open.kind = Call::Kind::open, open.capacity = 9;
  extend.kind = Call::Kind::extend, extend.tokens = {{1, 2, 3}};
  rewind.kind = Call::Kind::rewind, rewind.numbers = {1};
  runner.run(open, false);
  runner.run(extend, false);
  EXPECT_EQ(named([&] { runner.run(rewind, false); }),
            "call 2, rewind of rows of [3] tokens to [1]");
  EXPECT_EQ(named([&] { subject_.rewind(runner.id(0), {0}); }),
            "rewind of rows of [3] tokens to [0]");
}

TEST_F(NotedRequests, AreNamedInVerdictsThatCameOfThemAndInNoOthers) {
  const auto session = subject_.open(1, 1, 12, 0);
  const auto fail = [&] { subject_.extend(session, {{}}, false); };
  EXPECT_NE(named(fail, VerdictKind::differs, "refused a valid request: no"), "");
  EXPECT_EQ(named(fail, VerdictKind::differs, "logit 1 is 4"), "");
  EXPECT_EQ(named(fail, VerdictKind::refused, "the rewind needs a larger margin"),
            "extend of rows of [0] tokens by [0] (\"no\")");
  EXPECT_EQ(in_words(explained(VerdictKind::refused, "no")),
            "extend of rows of [0] tokens by [0]: no");
  subject_.unload(1);
  EXPECT_NE(explained(VerdictKind::refused, "no").request, "") << "putting away came after";
  subject_.extend(session, {{1}}, false);
  EXPECT_EQ(explained(VerdictKind::refused, "no").request, "") << "it was not the end of the case";
  EXPECT_ANY_THROW(fail());
  log_->begin_case();
  EXPECT_EQ(explained(VerdictKind::refused, "no").request, "");
}

/// The reference, but what was taken is never given back.
class NeverRewinds : public WrappedSubject {
 public:
  NeverRewinds() : WrappedSubject(make_subject("reference")), info_(inner().info()) {
    info_.margin = 0;
  }
  const SubjectInfo& info() const override { return info_; }
  void rewind(SessionId, const std::vector<int>&) override {
    throw SubjectRefusal(Kind::invalid, "cannot");
  }

 private:
  SubjectInfo info_;
};

TEST(NotedRequest, OfARefusedSpeculationIsTheRewindOfItsDrafts) {
  const Property& property = find_property("greedy-speculation");
  const auto log = std::make_shared<RequestLog>();
  NotedSubject subject(std::make_unique<NeverRewinds>(), log);
  const auto against = make_subject("reference:double");
  for (int i = 0; i < 200; ++i) {
    const Case test_case = property.generate(1, i, CaseSize::smoke);
    const auto source = make_model_source(test_case.model);
    Yardstick yardstick(source->checkpoint(), "float32");
    Judgement judgement{*source, subject, *against, yardstick};
    log->begin_case();
    Verdict verdict = property.judge(test_case, judgement);
    log->explain(verdict);
    if (verdict.message.find("needs a larger margin") == std::string::npos) continue;
    EXPECT_TRUE(std::regex_match(
        verdict.request,
        std::regex(R"(call \d+, rewind of rows of \[.*\] tokens to \[.*\] \("cannot"\))")))
        << verdict.request;
    return;
  }
  FAIL() << "no rewind of drafts was refused";
}

}  // namespace
}  // namespace kvconform
