// Requests that make no sense are refused (`invalid` or `unsupported`) and change nothing: tokens
// outside the vocabulary, more tokens than the capacity, a wrong number of rows, a rewind forwards,
// rows and sessions that do not exist, files that end early. The calls of a case run once without
// them and once with all of them after every call; both give the same logits.
//
// A rewind further back than the margin may be refused or served; where it is accepted, the dropped
// tokens are fed again and must come out as before.
//
// Source: subject-protocol.md ("changes nothing"); mlx-swift-lm #424, mlx-lm #1512 (a rewind of a
// wrapped ring does nothing, or corrupts it, without a word), transformers #31848 (an index runs
// over), mlxcel #885, vllm-ascend #2729. Needs: cache.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/temporary_folder.h"
#include "properties/transcript_comparison.h"
#include "reference/counted.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

/// A session of the case and what it holds.
struct Target {
  Subject::SessionId id = 0;
  int capacity = 0;
  std::vector<TokenHistory> rows;
  int longest(int row) const { return marks[row]; }
  std::vector<int> marks;  ///< the longest length of each row since it was opened or emptied
};

/// Follows the rows of all sessions of a case.
class Targets {
 public:
  void apply(const Call& call, Subject::SessionId id) {
    Target& at = open_[call.session];
    switch (call.kind) {
      case Call::Kind::open:
        at = {id, call.capacity, {}, {}};
        at.rows.assign(call.batch, TokenHistory{{}, call.start});
        at.marks.assign(call.batch, 0);
        break;
      case Call::Kind::extend:
        for (std::size_t r = 0; r < at.rows.size(); ++r) {
          at.rows[r].take(call.tokens[r]);
          at.marks[r] = std::max(at.marks[r], length(at.rows[r]));
        }
        break;
      case Call::Kind::rewind:
        for (std::size_t r = 0; r < at.rows.size(); ++r) {
          at.rows[r].cut(call.numbers[r]);
          if (call.numbers[r] == 0) at.marks[r] = 0;
        }
        break;
      case Call::Kind::reorder: {
        const Target old = at;
        for (std::size_t r = 0; r < at.rows.size(); ++r) {
          at.rows[r] = old.rows[call.numbers[r]];
          at.marks[r] = old.marks[call.numbers[r]];
        }
        break;
      }
      case Call::Kind::fork:
        at = open_[call.from];
        at.id = id;
        break;
      case Call::Kind::save:
        saved_[call.session] = at;
        break;
      case Call::Kind::restore:
        at = saved_[call.from];
        at.id = id;
        break;
      case Call::Kind::close:
        open_.erase(call.session);
        break;
      case Call::Kind::score:
        break;
    }
  }

  const Target* find(int session) const {
    const auto found = open_.find(session);
    return found == open_.end() ? nullptr : &found->second;
  }

  static int length(const TokenHistory& row) { return static_cast<int>(row.tokens.size()); }

 private:
  std::map<int, Target> open_, saved_;
};

/// Thrown out of the probing where a request was not answered as it should be.
struct Accepted {
  std::string request;
};

/// Everything that must be refused of one session.
class BadRequests {
 public:
  BadRequests(Subject& subject, Subject::ModelId model, const ModelConfig& config)
      : subject_(subject), model_(model), vocab_(config.vocab_size) {}

  void try_all(const Target& target) {
    extends(target);
    if (has("rewind")) rewinds(target);
    if (has("reorder")) reorders(target);
  }

  void try_once(const Target& target) {
    if (has("score")) {
      must_refuse("score of a token outside the vocabulary", [&] {
        subject_.score(model_, {{0, vocab_}});
      });
    }
    closed_sessions();
    if (has("save")) broken_files(target);
  }

 private:
  bool has(const char* capability) const {
    return subject_.info().capabilities.count(capability) > 0;
  }

  template <class Request>
  void must_refuse(const std::string& name, Request request) {
    try {
      request();
    } catch (const SubjectRefusal&) {
      return;
    } catch (const SubjectUnusable&) {
      throw;
    } catch (const SubjectBroken& e) {
      throw SubjectBroken(name + ": " + e.what());
    }
    throw Accepted{name};
  }

  void extend(const Target& target, const std::string& name, const TokenRows& rows) {
    must_refuse(name, [&] { subject_.extend(target.id, rows); });
  }

  void extends(const Target& target) {
    const int batch = static_cast<int>(target.rows.size());
    // One token in each row keeps the request plain for subjects without ragged rows.
    const TokenRows ones(batch, std::vector<int>{0});
    for (int token : {vocab_, -1}) {
      TokenRows rows = ones;
      rows.back() = {token};
      extend(target, fmt::format("extend by token {} of a vocabulary of {}", token, vocab_), rows);
    }
    TokenRows more = ones;
    more.push_back({0});
    extend(target, fmt::format("extend of {} in a batch of {}", counted(batch + 1, "row"), batch),
           more);
    if (batch > 1) {
      const TokenRows fewer(batch - 1, std::vector<int>{0});
      extend(target, fmt::format("extend of {} in a batch of {}", counted(batch - 1, "row"), batch),
             fewer);
    }
    TokenRows over(batch);
    const int room = target.capacity - Targets::length(target.rows.back());
    over.back().assign(room + 1, 0);
    extend(target,
           fmt::format("extend by {} past a capacity of {}", counted(room + 1, "token"),
                       target.capacity),
           over);
  }

  void rewind(const Target& target, const std::string& name, const std::vector<int>& lengths) {
    must_refuse(name, [&] { subject_.rewind(target.id, lengths); });
  }

  void rewinds(const Target& target) {
    std::vector<int> now;
    for (const TokenHistory& row : target.rows) now.push_back(Targets::length(row));
    std::vector<int> forwards = now, negative = now, more = now;
    forwards.back() += 1;
    rewind(target,
           fmt::format("rewind of a row of {} to {}", counted(now.back(), "token"), now.back() + 1),
           forwards);
    negative.back() = -1;
    rewind(target, "rewind to length -1", negative);
    more.push_back(0);
    rewind(target,
           fmt::format("rewind of {} in a batch of {}", counted(now.size() + 1, "row"), now.size()),
           more);
  }

  void reorders(const Target& target) {
    const int batch = static_cast<int>(target.rows.size());
    for (int source : {batch, -1}) {
      std::vector<int> rows(batch, 0);
      rows.back() = source;
      must_refuse(fmt::format("reorder from row {} of a batch of {}", source, batch),
                  [&] { subject_.reorder(target.id, rows); });
    }
    must_refuse(fmt::format("reorder of {} in a batch of {}", counted(batch + 1, "row"), batch),
                [&] { subject_.reorder(target.id, std::vector<int>(batch + 1, 0)); });
  }

  void closed_sessions() {
    const auto closed = subject_.open(model_, 1, 4);
    subject_.close(closed);
    must_refuse("extend of a closed session", [&] { subject_.extend(closed, {{0}}); });
    must_refuse("close of a closed session", [&] { subject_.close(closed); });
    if (has("rewind")) {
      must_refuse("rewind of a closed session", [&] { subject_.rewind(closed, {0}); });
    }
    if (has("reorder")) {
      must_refuse("reorder of a closed session", [&] { subject_.reorder(closed, {0}); });
    }
    if (has("fork")) must_refuse("fork of a closed session", [&] { subject_.fork(closed); });
    if (has("cache_report")) {
      must_refuse("cache of a closed session", [&] { subject_.cache(closed); });
    }
  }

  void broken_files(const Target& target) {
    const TemporaryFolder folder("kvconform-broken");
    const auto whole = folder.path() / "whole", part = folder.path() / "part";
    must_refuse("restore of a file that is not there", [&] { subject_.restore(model_, part); });
    subject_.save(target.id, whole);
    std::ifstream in(whole, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (bytes.empty()) return;  // a subject that saves in another form than one file
    for (std::size_t length : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      std::ofstream(part, std::ios::binary | std::ios::trunc) << bytes.substr(0, length);
      must_refuse(fmt::format("restore of {} of the {} that {} saved", length,
                              counted(bytes.size(), "byte"), agreeing(bytes.size(), "was", "were")),
                  [&] { subject_.restore(model_, part); });
    }
  }

  Subject& subject_;
  Subject::ModelId model_;
  int vocab_;
};

/// Goes further back than the margin. Refused: nothing has changed. Served: the dropped tokens are
/// fed again, one by one, and the transcript says what came out.
class DeepRewind {
 public:
  DeepRewind(Subject& subject, const ModelConfig& config) : subject_(subject), config_(config) {
    const bool slides = std::count(config.layer_types.begin(), config.layer_types.end(),
                                   AttentionType::sliding) > 0;
    window_ = slides ? config.sliding_window : 0;
  }

  void attempt(const Target& target, int call, Transcript& refed) const {
    if (window_ == 0 || target.rows.size() != 1) return;
    TokenHistory row = target.rows[0];
    const int deep = target.longest(0) - subject_.info().margin - 1;
    const int length = Targets::length(row);
    if (target.longest(0) <= window_ || deep < 1 || deep >= length) return;
    try {
      subject_.rewind(target.id, {deep});
    } catch (const SubjectRefusal&) {
      return;
    }
    const TokenHistory whole = row;
    row.cut(deep);
    for (int i = deep; i < length; ++i) {
      const std::vector<int> token = {whole.tokens[i]};
      row.take(token);
      CallRecord record{call, {{0, row, i}}, subject_.extend(target.id, {token})};
      check_shape(record, config_.vocab_size, false);
      refed.push_back(std::move(record));
    }
  }

 private:
  Subject& subject_;
  const ModelConfig& config_;
  int window_ = 0;
};

class ErrorsNotSilence : public GeneratedProperty {
 public:
  const char* name() const override { return "errors-not-silence"; }
  const char* sentence() const override {
    return "Requests that make no sense are refused and change nothing.";
  }
  const char* source() const override {
    return "subject-protocol.md, mlx-swift-lm #424, mlx-lm #1512, transformers #31848";
  }
  std::vector<std::string> needs() const override { return {"cache"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      return examine(test_case, judgement, config);
    });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int kind = draw.between(0, 2);
    if (kind == 0) return draw_session_life(draw, bounds);
    const LifeStyle style = draw_style(draw);
    SessionLives lives(draw, bounds, style);
    const int batch = draw.one_of({1, 1, 2, 3});
    const int session = lives.open(batch);
    const int count = lives.draw_feed();
    kind == 1 ? lives.feed(session, count) : lives.feed_past_window(session);
    lives.feed(session, 2);
    return lives.take();
  }

 private:
  static Verdict examine(const Case& test_case, Judgement& judgement, const ModelConfig& config) {
    const LoadedModel model(judgement.subject, judgement.model);
    const bool trace = wants_traces(judgement);
    const Transcript plain =
        run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, trace);
    Transcript refed, seen;
    try {
      seen = run_with_bad_requests(test_case, judgement, config, model, refed);
    } catch (const Accepted& accepted) {
      Verdict verdict;
      verdict.kind = VerdictKind::differs;
      verdict.message = accepted.request + " was accepted";
      verdict.cause = "an input is not checked before it is used";
      return verdict;
    }
    const SamePlace place(plain, test_case.calls, true);
    const auto expected = [&](const At& at) { return place.find(at); };
    Verdict verdict = comparison_within(test_case, judgement, config, expected).judge(seen);
    if (verdict.kind == VerdictKind::differs) {
      verdict.message = "after requests that were refused: " + verdict.message;
      verdict.cause = "a refused request changes the session: check before anything moves";
    }
    if (verdict.kind != VerdictKind::conforms || refed.empty()) return verdict;
    return judge_refed(test_case, judgement, config, model, refed);
  }

  static Transcript run_with_bad_requests(const Case& test_case, Judgement& judgement,
                                          const ModelConfig& config, const LoadedModel& model,
                                          Transcript& refed) {
    Subject& subject = judgement.subject;
    BadRequests bad(subject, model.id(), config);
    const DeepRewind deep(subject, config);
    const bool rewinds = subject.info().capabilities.count("rewind") > 0;
    CallRunner runner(subject, model.id());
    RowLedger ledger;
    Targets targets;
    Transcript seen;
    bool once = false;
    for (std::size_t i = 0; i < test_case.calls.size(); ++i) {
      const Call& call = test_case.calls[i];
      CallRecord record{static_cast<int>(i), ledger.apply(call), {}};
      record.output = runner.run(call, wants_traces(judgement));
      const bool logits = call.kind == Call::Kind::extend || call.kind == Call::Kind::score;
      if (logits) check_shape(record, config.vocab_size, wants_traces(judgement));
      const bool makes = call.kind == Call::Kind::open || call.kind == Call::Kind::fork ||
                         call.kind == Call::Kind::restore;
      targets.apply(call, makes ? runner.id(call.session) : 0);
      if (logits) seen.push_back(std::move(record));
      const Target* target = targets.find(call.session);
      if (target == nullptr || target->rows.empty()) continue;
      bad.try_all(*target);
      if (rewinds) deep.attempt(*target, static_cast<int>(i), refed);
      if (!once && call.kind == Call::Kind::extend) bad.try_once(*target), once = true;
    }
    return seen;
  }

  static Verdict judge_refed(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                             const LoadedModel& model, const Transcript& refed) {
    OracleAnswers known(true);
    for (const TokenHistory& history : longest_histories(test_case.calls)) {
      known.add(history, ask_same_chunks(model, history, false));
    }
    Verdict verdict = comparison_within(test_case, judgement, config, [&](const At& at) {
                        return known.find(at);
                      }).judge(refed);
    if (verdict.kind == VerdictKind::differs) {
      verdict.message =
          "a rewind further back than the margin was accepted, and then " + verdict.message;
      verdict.cause = "a wrapped ring is rewound by lowering a counter, or not at all";
    }
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> errors_not_silence() {
  return std::make_unique<ErrorsNotSilence>();
}

}  // namespace kvconform
