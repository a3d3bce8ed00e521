// The logits of a token are the same with a cache and without one, whatever happened to the cache:
// any split of the prompt into calls, any batch, after rewind, fork, reorder, save and restore.
//
// Source: model-spec.md, section 5 ("the rule does not depend on whether a cache is used"); broken
// in mlx-lm #1674 and in transformers before #45312, where consumers projected keys of their own.
// Needs: score, cache.
#include "properties/causes.h"
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/history.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/shrinking.h"

namespace kvconform {
namespace {

/// The tokens of the case's rows, each scored with no cache.
Case scored(const Case& test_case) {
  Case scores = test_case;
  scores.calls.clear();
  for (const TokenHistory& history : longest_histories(test_case.calls, true)) {
    Call call;
    call.kind = Call::Kind::score;
    call.tokens = {history.tokens};
    scores.calls.push_back(call);
  }
  return scores;
}

/// Asks what the subject is held against; only where traces are wanted.
RightPath right_path(const Case& test_case, Judgement& judgement) {
  const bool cached = !locate(test_case, judgement);
  const bool uncached = !locate(scored(test_case), judgement);
  if (cached == uncached) return RightPath::unknown;
  return cached ? RightPath::cached : RightPath::uncached;
}

class CacheIndependence : public GeneratedProperty {
 public:
  const char* name() const override { return "cache-independence"; }
  const char* sentence() const override {
    return "The logits of a token are the same with a cache and without one, whatever the calls.";
  }
  const char* source() const override { return "mlx-lm #1674, transformers #45312"; }
  std::vector<std::string> needs() const override { return {"score", "cache"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    Verdict verdict = judge_equivalence(test_case, judgement, {ask_score});
    if (verdict.kind != VerdictKind::differs || !wants_traces(judgement)) return verdict;
    if (!verdict.first_difference) return verdict;
    const std::string cause = cause_by_path(config_of(test_case.model), *verdict.first_difference,
                                            right_path(test_case, judgement));
    if (!cause.empty()) verdict.cause = cause;
    return verdict;
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
