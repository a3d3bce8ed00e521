// A prompt given at once and the same prompt given token by token lead to the same logits at every
// position: prefill and decode are two ways to compute one thing.
//
// Source: mlx-lm #1805 (queries of consumers rotated by the length of the call), mlx-lm #390
// (prefill and decode with different window bounds), mlxcel #412. Needs: cache.
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"

namespace kvconform {
namespace {

class PrefillEqualsDecode : public GeneratedProperty {
 public:
  const char* name() const override { return "prefill-equals-decode"; }
  const char* sentence() const override {
    return "A prompt given at once leads to the same logits as the prompt given token by token.";
  }
  const char* source() const override { return "mlx-lm #1805, mlx-lm #390, mlxcel #412"; }
  std::vector<std::string> needs() const override { return {"cache"}; }

  bool holds_of_any_case() const override { return true; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    Equivalence how{ask_token_by_token};
    how.names = {"given at once", "given token by token"};
    return judge_equivalence(test_case, judgement, how);
  }

 protected:
  /// The whole prompt in one call; sometimes two more calls.
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int length = draw_length(draw, bounds);
    const int more = draw.chance(40) ? draw.between(1, 4) : 0;
    Call open;
    open.kind = Call::Kind::open;
    open.capacity = length + 2 * more;
    std::vector<Call> calls = {open};
    for (int count : {length, more, more}) {
      if (count == 0) continue;
      Call extend;
      extend.tokens = {draw_tokens(draw, bounds, count)};
      calls.push_back(extend);
    }
    return calls;
  }
};

}  // namespace

std::unique_ptr<Property> prefill_equals_decode() {
  return std::make_unique<PrefillEqualsDecode>();
}

}  // namespace kvconform
