// Greedy decoding with a drafter gives the tokens, and the logits, of plain greedy decoding: k
// draft tokens are verified in one call, the wrong ones rewound, each row at its own pace.
//
// The case's first calls open a session and give the prompts; each later extend is a list of drafts
// for each row. An even draft stands for the right guess (the plain token), an odd one for itself,
// so that a case is the same on every subject and shrinks towards drafts that are all accepted.
// Where logits agree within the budget and yet another token is on top, it is a tie: what follows
// is another text and is not compared.
//
// Source: mlx-swift-lm #424, #383 (lossy once the context passed the window), mlx-vlm #1155 (all
// rows advance by the same number), MNN #4898. Needs: cache, chunked, rewind; past the wrap a
// margin.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/transcript_comparison.h"
#include "reference/counted.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

using Row = std::vector<int>;

int top_token(const Logits& logits, int position) {
  const double* row = logits.row(position);
  return static_cast<int>(std::max_element(row, row + logits.vocab) - row);
}

/// A row decoded greedily, one token at a time: what it fed, and the logits of all of it.
struct Plain {
  TokenHistory history;
  Output output;
};

Plain plain_greedy(const LoadedModel& model, const Row& prompt, int steps, int vocab_size,
                   bool trace) {
  Plain plain;
  const int capacity = static_cast<int>(prompt.size()) + steps;
  const auto session = model.subject().open(model.id(), 1, capacity);
  Row next = prompt;
  for (int step = 0; step <= steps; ++step) {
    const int first = static_cast<int>(plain.history.tokens.size());
    plain.history.take(next);
    CallRecord record{step, {{0, plain.history, first}}, {}};
    record.output = model.subject().extend(session, {next}, trace);
    check_shape(record, vocab_size, trace);
    append(plain.output, record.output);
    next = {top_token(plain.output.logits, plain.output.logits.positions - 1)};
  }
  model.subject().close(session);
  return plain;
}

/// The speculating session: drafts in, accepted tokens counted, the rest rewound.
class Speculation {
 public:
  Speculation(const LoadedModel& model, const std::vector<Plain>& plain, const ModelConfig& config,
              bool trace)
      : model_(model), plain_(plain), config_(config), trace_(trace) {}

  /// Nothing where a rewind was refused that needs more than the subject's margin.
  std::optional<Transcript> run(const Call& open, const TokenRows& prompts,
                                const std::vector<Call>& drafts) {
    Call begin = open;
    begin.capacity = 0;
    for (const Plain& row : plain_) {
      const int length = static_cast<int>(row.history.tokens.size());
      begin.capacity = std::max(begin.capacity, length + 1);
    }
    session_ = model_.subject().open(model_.id(), begin.batch, begin.capacity);
    ledger_.apply(begin);
    const Output first = feed(prompts);
    int last = -1;
    for (const Row& prompt : prompts) {
      last += static_cast<int>(prompt.size());
      next_.push_back(top_token(first.logits, last));
      lengths_.push_back(static_cast<int>(prompt.size()));
    }
    for (const Call& draft : drafts) {
      if (!verify(draft)) return std::nullopt;
    }
    model_.subject().close(session_);
    model_.subject().at_call(-1);
    return std::move(seen_);
  }

  /// Rows that left the plain text: at a tie, if their logits agree.
  int departed() const { return static_cast<int>(departed_.size()); }

 private:
  Output feed(const TokenRows& rows) {
    Call call;
    call.kind = Call::Kind::extend;
    call.tokens = rows;
    CallRecord record{static_cast<int>(seen_.size()) + 1, ledger_.apply(call), {}};
    model_.subject().at_call(record.call);  // and so are the rewinds after it
    record.output = model_.subject().extend(session_, rows, trace_);
    check_shape(record, config_.vocab_size, trace_);
    seen_.push_back(std::move(record));
    return seen_.back().output;
  }

  int meant(int draft, std::size_t row, int position) const {
    const Row& right = plain_[row].history.tokens;
    const bool guesses_right = draft % 2 == 0 && position < static_cast<int>(right.size());
    return guesses_right ? right[position] : draft;
  }

  bool verify(const Call& draft) {
    TokenRows rows;
    for (std::size_t r = 0; r < next_.size(); ++r) {
      Row row = {next_[r]};
      for (int token : draft.tokens[r]) {
        row.push_back(meant(token, r, lengths_[r] + static_cast<int>(row.size())));
      }
      rows.push_back(std::move(row));
    }
    const Output output = feed(rows);
    std::vector<int> kept = lengths_;
    bool rejected = false;
    for (std::size_t r = 0, base = 0; r < rows.size(); base += rows[r++].size()) {
      std::size_t accepted = 1;  // the token fed first was never a guess
      while (accepted < rows[r].size() &&
             rows[r][accepted] == top_token(output.logits, int(base + accepted - 1))) {
        ++accepted;
      }
      next_[r] = top_token(output.logits, int(base + accepted - 1));
      kept[r] += static_cast<int>(accepted);
      note_next(r, kept[r]);
      lengths_[r] += static_cast<int>(rows[r].size());
      rejected |= accepted < rows[r].size();
    }
    return !rejected || rewind(std::move(kept));
  }

  /// Another token on top than in the plain text: the row tells another story from here on.
  void note_next(std::size_t row, int position) {
    const Row& right = plain_[row].history.tokens;
    const bool known = position < static_cast<int>(right.size());
    if (known && next_[row] != right[position]) departed_.insert(row);
  }

  bool rewind(std::vector<int> kept) {
    const int margin = model_.subject().info().margin;
    bool beyond = false;
    for (std::size_t r = 0; r < kept.size(); ++r) {
      const bool wrapped = window() > 0 && lengths_[r] > window();
      beyond |= wrapped && lengths_[r] - kept[r] > margin;
    }
    try {
      model_.subject().rewind(session_, kept);
    } catch (const SubjectRefusal&) {
      if (!beyond) throw;
      return false;
    }
    Call call;
    call.kind = Call::Kind::rewind;
    call.numbers = kept;
    ledger_.apply(call);
    lengths_ = std::move(kept);
    return true;
  }

  int window() const {
    const bool slides = std::count(config_.layer_types.begin(), config_.layer_types.end(),
                                   AttentionType::sliding) > 0;
    return slides ? config_.sliding_window : 0;
  }

  const LoadedModel& model_;
  const std::vector<Plain>& plain_;
  const ModelConfig& config_;
  bool trace_;
  Subject::SessionId session_ = 0;
  RowLedger ledger_;
  Row next_, lengths_;
  std::set<std::size_t> departed_;
  Transcript seen_;
};

/// A position is known where the row has followed the plain text so far.
std::optional<Expected> plain_position(const std::vector<Plain>& plain, const At& at) {
  const Plain& row = plain[at.span.row];
  const Row& tokens = at.span.history.tokens;
  const bool follows =
      at.token < row.output.logits.positions &&
      std::equal(tokens.begin(), tokens.begin() + at.token + 1, row.history.tokens.begin());
  if (!follows) return std::nullopt;
  return Expected{&row.output, at.token, &row.history};
}

class GreedySpeculation : public GeneratedProperty {
 public:
  const char* name() const override { return "greedy-speculation"; }
  const char* sentence() const override {
    return "Greedy decoding with drafts, the wrong ones rewound, gives what plain greedy decoding "
           "gives.";
  }
  const char* source() const override { return "mlx-swift-lm #424, #383, mlx-vlm #1155"; }
  std::vector<std::string> needs() const override { return {"cache", "chunked", "rewind"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      const std::vector<Call>& calls = test_case.calls;
      if (!is_speculation(calls)) {
        return Verdict{VerdictKind::ill_conditioned, "the case is no prompt with drafts",
                       std::nullopt, 0, ""};
      }
      const bool ragged = judgement.subject.info().capabilities.count("ragged") > 0;
      if (calls[0].batch > 1 && !ragged) {  // rows accept different numbers of drafts
        return Verdict{VerdictKind::not_applicable, "the subject lacks ragged", std::nullopt, 0,
                       ""};
      }
      return speculate(test_case, judgement, config);
    });
  }

 protected:
  ModelWishes wishes() const override {
    ModelWishes wishes;
    wishes.sliding = true;
    return wishes;
  }

  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    Call open;
    open.kind = Call::Kind::open;
    open.batch = draw.one_of({1, 1, 2, 3});
    Call prompt;
    const int most = std::max(2, bounds.most / 2);
    for (int r = 0; r < open.batch; ++r) {
      prompt.tokens.push_back(draw_tokens(draw, bounds, std::min(most, draw_length(draw, bounds))));
      open.capacity = std::max(open.capacity, static_cast<int>(prompt.tokens[r].size()));
    }
    std::vector<Call> calls = {open, prompt};
    const int steps = draw.between(1, 4);
    for (int step = 0; step < steps; ++step) {
      Call drafts;
      int longest = 0;
      for (int r = 0; r < open.batch; ++r) {
        const int count = draw.between(0, 4);
        drafts.tokens.push_back(draw_tokens(draw, bounds, count));
        longest = std::max(longest, count);
      }
      calls[0].capacity += longest;
      calls.push_back(std::move(drafts));
    }
    return calls;
  }

 private:
  static bool is_speculation(const std::vector<Call>& calls) {
    if (calls.size() < 2 || calls[0].kind != Call::Kind::open || calls[0].start != 0) return false;
    for (std::size_t i = 1; i < calls.size(); ++i) {
      if (calls[i].kind != Call::Kind::extend) return false;
      if (static_cast<int>(calls[i].tokens.size()) != calls[0].batch) return false;
    }
    return std::none_of(calls[1].tokens.begin(), calls[1].tokens.end(),
                        [](const Row& prompt) { return prompt.empty(); });
  }

  static Verdict speculate(const Case& test_case, Judgement& judgement, const ModelConfig& config) {
    const std::vector<Call>& calls = test_case.calls;
    const std::vector<Call> drafts(calls.begin() + 2, calls.end());
    const LoadedModel model(judgement.subject, judgement.model);
    const bool trace = wants_traces(judgement);
    std::vector<Plain> plain;
    for (std::size_t r = 0; r < calls[1].tokens.size(); ++r) {
      int steps = 0;  // enough for every draft to be accepted
      for (const Call& draft : drafts) steps += static_cast<int>(draft.tokens[r].size()) + 1;
      plain.push_back(plain_greedy(model, calls[1].tokens[r], steps, config.vocab_size, trace));
    }
    Speculation speculation(model, plain, config, trace);
    const auto seen = speculation.run(calls[0], calls[1].tokens, drafts);
    if (!seen) {
      return Verdict{VerdictKind::refused, "the rewind of rejected drafts needs a larger margin",
                     std::nullopt, 0, ""};
    }
    const auto expected = [&](const At& at) { return plain_position(plain, at); };
    Verdict verdict = comparison_within(test_case, judgement, config, expected).judge(*seen);
    if (speculation.departed() == 0) return verdict;
    const auto rows = fmt::format("{} of {} {} other tokens", speculation.departed(),
                                  counted(plain.size(), "row"),
                                  agreeing(speculation.departed(), "decodes", "decode"));
    verdict.message = verdict.kind == VerdictKind::differs
                          ? rows + "; " + verdict.message
                          : rows + " from a tie on, where the comparison ends";
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> greedy_speculation() {
  return std::make_unique<GreedySpeculation>();
}

}  // namespace kvconform
