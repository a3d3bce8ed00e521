// The same calls twice give the same logits: on fresh sessions of one load, and on a second load.
//
// Source: numerics.md ("run to run"); races and uninitialised memory show here first. Needs: what
// the case uses. Bits are asked for where the subject promises them, else its budget: reductions
// by atomic addition differ from run to run and are no fault by themselves.
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/transcript_comparison.h"

namespace kvconform {
namespace {

class Determinism : public GeneratedProperty {
 public:
  const char* name() const override { return "determinism"; }
  const char* sentence() const override {
    return "The same calls on fresh sessions, and on a model loaded anew, give the same logits.";
  }
  const char* source() const override { return "numerics.md, run to run"; }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      const LoadedModel model(judgement.subject, judgement.model);
      const Transcript first = run(test_case, judgement, config, model);
      Verdict verdict =
          compare(test_case, judgement, config, first, run(test_case, judgement, config, model));
      if (verdict.kind != VerdictKind::conforms) return named(verdict, "a second run");
      const LoadedModel again(judgement.subject, judgement.model);
      verdict =
          compare(test_case, judgement, config, first, run(test_case, judgement, config, again));
      return named(verdict, "a second load");
    });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int kind = draw.between(0, 3);
    if (kind == 0 || !bounds.cache) return draw_score(draw, bounds);
    const int batch = draw.one_of({1, 2, 3});
    if (kind == 1) return draw_chunked_prompt(draw, bounds, batch);
    return draw_session_life(draw, bounds);
  }

 private:
  static Transcript run(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                        const LoadedModel& model) {
    return run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size,
                     wants_traces(judgement));
  }

  /// Position by position: the calls are the same, so are the places in their outputs.
  static Verdict compare(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                         const Transcript& first, const Transcript& second) {
    const SamePlace place(first, test_case.calls, !config.bidirectional_all);
    const auto expected = [&](const At& at) { return place.find(at); };
    return comparison_within(test_case, judgement, config, expected).judge(second);
  }

  static Verdict named(Verdict verdict, const char* which) {
    if (verdict.kind != VerdictKind::differs) return verdict;
    verdict.message = std::string(which) + " of the same calls: " + verdict.message;
    verdict.cause =
        "a race, memory read before it is written, or state that outlives a session or a model";
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> determinism() {
  return std::make_unique<Determinism>();
}

}  // namespace kvconform
