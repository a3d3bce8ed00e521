// The subject computes the model: its logits, with a cache and without, are those of the double
// reference within what arithmetic in its precision costs on the very case.
//
// Source: model-spec.md; numerics.md, "Error budgets". What only agreement can catch: faults that
// are the same on every path (a window one too wide everywhere, the wrong owner, a scale left out).
// Needs: score or cache, whichever the case uses.
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/rotary_conventions.h"

namespace kvconform {
namespace {

class Agreement : public GeneratedProperty {
 public:
  const char* name() const override { return "agreement"; }
  const char* sentence() const override {
    return "The logits agree with the double reference within what the precision costs on the "
           "case.";
  }
  const char* source() const override { return "model-spec.md, numerics.md"; }
  std::vector<std::string> needs() const override { return {}; }

  bool holds_of_any_case() const override { return true; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    Verdict verdict =
        judge_equivalence(test_case, judgement, {ask_score, Chunks::any, /*against_other=*/true});
    if (verdict.kind != VerdictKind::differs || !judgement.traces) return verdict;
    const std::string rotary = rotary_cause(test_case, judgement);
    if (!rotary.empty()) verdict.cause = rotary;
    return verdict;
  }

 protected:
  ModelWishes wishes() const override {
    ModelWishes wishes;
    wishes.bidirectional = true;
    return wishes;
  }
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const bool score = draw.chance(50);
    if (score || !bounds.cache) return draw_score(draw, bounds);
    return draw_chunked_prompt(draw, bounds, 1);
  }
};

}  // namespace

std::unique_ptr<Property> agreement() {
  return std::make_unique<Agreement>();
}

}  // namespace kvconform
