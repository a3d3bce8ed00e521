// Later tokens never change earlier rows: the logits of a token are the same bits whatever comes
// after it in the same call, with a cache and without one.
//
// Source: model-spec.md, 6.1; tt-metal #48899 (a causal bound rounded up to a tile), nano-vllm #213
// (keys up to the end of the prompt, not of the chunk). Needs: score or cache, whichever the case
// uses. Lengths stay the same, so that no kernel changes its shape: bits are asked of every subject
// that promises them, and of the others no more than what twice the precision costs.
#include <fmt/format.h>

#include "properties/case_choice.h"
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/transcript_comparison.h"

namespace kvconform {
namespace {

/// The last call that gives logits, where later tokens are changed.
std::size_t last_asking(const std::vector<Call>& calls) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].tokens.empty()) last = i;
  }
  return last;
}

/// Where the change begins in a row of `length` tokens: at least one token stays, one changes.
int cut_of(const Case& test_case, int row, int length) {
  if (length < 2) return length;
  const std::uint64_t choice = choice_of(test_case, "cut") + static_cast<std::uint64_t>(row) * 7919;
  return 1 + static_cast<int>(choice % static_cast<std::uint64_t>(length - 1));
}

/// The case with every token from the cut on replaced, row by row of its last call.
std::vector<Call> with_another_end(const Case& test_case, int vocab_size) {
  std::vector<Call> calls = test_case.calls;
  Call& last = calls[last_asking(calls)];
  for (std::size_t r = 0; r < last.tokens.size(); ++r) {
    std::vector<int>& row = last.tokens[r];
    const int length = static_cast<int>(row.size());
    for (int t = cut_of(test_case, static_cast<int>(r), length); t < length; ++t) {
      row[t] = (row[t] + 1) % vocab_size;
    }
  }
  return calls;
}

class Causality : public GeneratedProperty {
 public:
  const char* name() const override { return "causality"; }
  const char* sentence() const override {
    return "Later tokens of a call never change the logits of earlier ones.";
  }
  const char* source() const override { return "tt-metal #48899, nano-vllm #213"; }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      if (config.bidirectional_all) {
        return Verdict{VerdictKind::not_applicable, "every token sees every other in this model",
                       std::nullopt, 0, ""};
      }
      return judge_causal(test_case, judgement, config);
    });
  }

 protected:
  /// A score, or a prompt whose last call has several tokens.
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const bool score = draw.chance(50);
    if (score || !bounds.cache) return draw_score(draw, bounds);
    const int batch = draw.one_of({1, 1, 2});
    std::vector<Call> calls = draw_chunked_prompt(draw, bounds, batch);
    Call more;
    for (int r = 0; r < batch; ++r) {
      const int count = draw.between(2, 9);
      more.tokens.push_back(draw_tokens(draw, bounds, count));
    }
    for (Call& call : calls) {
      if (call.kind == Call::Kind::open) call.capacity += 9;
    }
    calls.push_back(more);
    return calls;
  }

 private:
  static Verdict judge_causal(const Case& test_case, Judgement& judgement,
                              const ModelConfig& config) {
    const int vocab = prompt_bounds(test_case.model, CaseSize::standard).vocab_size;
    const std::vector<Call> changed = with_another_end(test_case, vocab);
    const LoadedModel model(judgement.subject, judgement.model);
    const bool trace = wants_traces(judgement);
    const auto run = [&](const std::vector<Call>& calls) {
      return run_calls(judgement.subject, model.id(), calls, config.vocab_size, trace);
    };
    const Transcript before = run(test_case.calls), after = run(changed);
    const int last = static_cast<int>(last_asking(test_case.calls));
    Gauge gauge(judgement.model, judgement.subject.info().dtype, &judgement.yardstick);
    gauge.prepare(longest_histories(test_case.calls));
    const SamePlace same(before, test_case.calls, /*causal=*/true);
    TranscriptComparison comparison = comparison_within(
        test_case, judgement, config, [&](const At& at) -> std::optional<Expected> {
          const int in_call = at.token - at.span.first;
          const bool later =
              at.record.call == last && in_call >= cut_of(test_case, at.span.row, at.span.count());
          if (later) return std::nullopt;
          return same.find(at);
        });
    comparison.gauge = &gauge;
    Verdict verdict = comparison.judge(after);
    if (verdict.kind == VerdictKind::differs) {
      verdict.cause =
          "later tokens of the same call are seen: a causal bound rounded up to a tile (tt-metal "
          "#48899), or keys up to the end of the prompt (nano-vllm #213)";
    }
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> causality() {
  return std::make_unique<Causality>();
}

}  // namespace kvconform
