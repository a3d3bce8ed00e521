// Far from the beginning, near 2^8, 2^11, 2^14 and 2^17, the logits are still those of the
// reference, and they depend on positions only through differences: a session that starts there
// gives what the same calls give from position 0.
//
// Why the second half is exact but for rounding: queries and keys are rotated by angles
// proportional to their positions (also with partial and scaled frequencies), so that their product
// knows the difference alone; values, per-layer inputs and masks know no absolute position. What it
// costs is measured: the noise probe runs at the far position.
//
// Source: model-spec.md, sections 4 and 6.3 ("only differences matter"); position tables in half
// precision, tables that end too early, 16-bit counters. Needs: cache; start, except for some long
// prompts at size deep.
#include <fmt/format.h>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/transcript_comparison.h"

namespace kvconform {
namespace {

class FarPositions : public GeneratedProperty {
 public:
  const char* name() const override { return "far-positions"; }
  const char* sentence() const override {
    return "Far from position 0 the logits agree with the reference, and with the same calls from "
           "position 0.";
  }
  const char* source() const override { return "model-spec.md, sections 4 and 6.3"; }
  std::vector<std::string> needs() const override { return {"cache"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    Equivalence against{ask_one_shot};
    against.against_other = true;
    const Verdict agreement = judge_equivalence(test_case, judgement, against);
    if (agreement.kind != VerdictKind::conforms || starts(test_case) == 0) return agreement;
    Verdict shifted = guarded(test_case, judgement, [&](const ModelConfig& config) {
      return from_zero(test_case, judgement, config);
    });
    shifted.budget_used = std::max(shifted.budget_used, agreement.budget_used);
    return shifted;
  }

  Case generate(std::uint64_t seed, std::uint64_t index, CaseSize size) const override {
    return case_at(
        name(), seed, index, [&](Draw& draw) { return draw_model_for(draw, size); },
        [&](Draw& draw, const ModelSpec& model) {
          const bool runs_long = size == CaseSize::deep && draw.chance(10);
          const PromptBounds bounds = prompt_bounds(model, size);
          return runs_long ? long_prompt(draw, bounds) : calls(draw, bounds);
        });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    PromptBounds shorter = bounds;
    shorter.most = std::min(bounds.most, 12);
    // Counters of 16 bits end at the last two; the furthest is drawn more often, since it is a hard
    // class of its own.
    const int near = 1 << draw.one_of({8, 11, 14, 17, 17, 17, 15, 16});
    const int before = draw.between(-2, 8);  // the row often crosses the power of two
    std::vector<Call> calls = draw_chunked_prompt(draw, shorter, 1);
    calls[0].start = near - before;
    return calls;
  }

 private:
  static int starts(const Case& test_case) {
    return test_case.calls.empty() ? 0 : test_case.calls[0].start;
  }

  /// Without the capability `start`: past 2^8, and sometimes past 2^11, one token after the other.
  static std::vector<Call> long_prompt(Draw& draw, const PromptBounds& bounds) {
    const int near = draw.chance(97) ? 1 << 8 : 1 << 11;
    const int length = near + draw.between(1, 12);
    Call open;
    open.kind = Call::Kind::open;
    open.capacity = length;
    std::vector<Call> calls = {open};
    const int chunk = draw.one_of({32, 64, 100});
    for (int fed = 0; fed < length;) {
      const int left = near - 8 - fed;
      const int count = left > 0 ? std::min(chunk, left) : 1;
      Call extend;
      extend.tokens = {draw_tokens(draw, bounds, count)};
      calls.push_back(extend);
      fed += count;
    }
    return calls;
  }

  static Verdict from_zero(const Case& test_case, Judgement& judgement, const ModelConfig& config) {
    std::vector<Call> near = test_case.calls;
    for (Call& call : near) call.start = 0;
    const LoadedModel model(judgement.subject, judgement.model);
    const bool trace = wants_traces(judgement);
    const auto run = [&](const std::vector<Call>& calls) {
      return run_calls(judgement.subject, model.id(), calls, config.vocab_size, trace);
    };
    const Transcript expected = run(near), seen = run(test_case.calls);
    // The budget is that of the far rows: rounded angles cost more there.
    const std::vector<TokenHistory> far = longest_histories(test_case.calls);
    const auto same_place = [&](const At& at) -> std::optional<Expected> {
      const auto record = std::find_if(expected.begin(), expected.end(), [&](const CallRecord& r) {
        return r.call == at.record.call;
      });
      const auto history = std::find_if(far.begin(), far.end(), [&](const TokenHistory& h) {
        return at.span.history.is_prefix_of(h);
      });
      if (record == expected.end() || history == far.end()) return std::nullopt;
      return Expected{&record->output, at.index, &*history};
    };
    TranscriptComparison comparison = comparison_within(test_case, judgement, config, same_place);
    comparison.bits = false;  // the angles are others
    Verdict verdict = comparison.judge(seen);
    if (verdict.kind == VerdictKind::differs) {
      verdict.message =
          fmt::format("from position {} instead of 0: {}", starts(test_case), verdict.message);
    }
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> far_positions() {
  return std::make_unique<FarPositions>();
}

}  // namespace kvconform
