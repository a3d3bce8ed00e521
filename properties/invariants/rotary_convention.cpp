// Positions are rotated by the model's convention, in every path: pairs (i, i + D/2), each layer
// type by its own base, factor and share. A subject that follows another one is told which.
//
// Source: model-spec.md, section 4, and section 7 (one pair more in mlx-lm 0.32.2); rotary kernels
// that pair neighbours. Needs: score or cache, whichever the case uses. A subject that differs from
// the model and follows none of the known conventions is the business of `agreement`.
#include <fmt/format.h>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/rotary_conventions.h"

namespace kvconform {
namespace {

class RotaryConvention : public GeneratedProperty {
 public:
  const char* name() const override { return "rotary-convention"; }
  const char* sentence() const override {
    return "Positions are rotated by the model's convention in every path, not by another known "
           "one.";
  }
  const char* source() const override { return "model-spec.md, sections 4 and 7"; }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      Transcript seen;
      {
        const LoadedModel model(judgement.subject, judgement.model);
        seen = run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, false);
      }
      const RotaryFinding found = explain_by_rotary_convention(test_case, judgement, seen);
      if (found.convention.empty()) return Verdict{};
      // A shrunk case has one path left; the other ones tell how far it goes.
      const std::string cause = judgement.traces ? rotary_cause(test_case, judgement) : "";
      Verdict verdict = differs(found, cause);
      if (const auto place = locate(test_case, judgement)) verdict.first_difference = place;
      return verdict;
    });
  }

 protected:
  /// One path alone, or all of them.
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    using enum AttentionPath;
    const int length = draw.between(4, 12);
    const std::vector<int> prompt = draw_tokens(draw, bounds, length);
    const int which = bounds.cache ? draw.between(0, 3) : 0;
    if (which == 0) return calls_through({score}, prompt);
    if (which == 1) return calls_through({several_tokens}, prompt);
    if (which == 2) return calls_through({one_token}, prompt);
    return calls_through({score, several_tokens, one_token}, prompt);
  }

 private:
  static Verdict differs(const RotaryFinding& found, const std::string& cause) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.budget_used = found.worst.budget_used;
    verdict.first_difference = found.worst;
    verdict.message = fmt::format(
        "call {}, row {}, token {}: logit {} is {:.9g}, the model's {:.9g}; it is what another "
        "rotary convention gives",
        found.worst.call, found.worst.row, found.worst.token, found.worst.dimension,
        found.worst.seen, found.worst.expected);
    verdict.cause = cause.empty() ? found.convention + ", " + found.where : cause;
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> rotary_convention() {
  return std::make_unique<RotaryConvention>();
}

}  // namespace kvconform
