// The logits of a token are the same with a cache and without one, whatever happened to the cache:
// any split of the prompt into calls, any batch, after rewind, fork, reorder, save and restore.
//
// Source: model-spec.md, section 5 ("the rule does not depend on whether a cache is used"); broken
// in mlx-lm #1674 and in transformers before #45312, where consumers projected keys of their own.
// Needs: score, cache.
#include "properties/causes.h"
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/shrinking.h"

namespace kvconform {
namespace {

class CacheIndependence : public GeneratedProperty {
 public:
  const char* name() const override { return "cache-independence"; }
  const char* sentence() const override {
    return "The logits of a token are the same with a cache and without one, whatever the calls.";
  }
  const char* source() const override { return "mlx-lm #1674, transformers #45312"; }
  std::vector<std::string> needs() const override { return {"score", "cache"}; }

  bool holds_of_any_case() const override { return true; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    Equivalence how{ask_score};
    how.names = {"with a cache", "without a cache"};
    how.explain = [&](RightWay right, Verdict& verdict) {
      const std::string cause =
          cause_by_path(config_of(test_case.model), *verdict.first_difference, right);
      if (!cause.empty()) verdict.cause = cause;
    };
    return judge_equivalence(test_case, judgement, how);
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    if (draw.chance(50)) return draw_session_life(draw, bounds);
    const int batch = draw.one_of({1, 1, 2, 3});
    return draw_chunked_prompt(draw, bounds, batch);
  }
};

}  // namespace

std::unique_ptr<Property> cache_independence() {
  return std::make_unique<CacheIndependence>();
}

}  // namespace kvconform
