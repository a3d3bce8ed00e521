// Projections that a file carries for consumers change nothing, whether absent, random or NaN;
// those of their owner do.
//
// Source: model-spec.md, section 2 ("dead tensors"): published files carry them, files saved by
// current transformers do not (transformers #45336, vLLM #54917, lattice #992). Needs: score. The
// second half is asked only where the truth itself moves by more than the noise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/comparison.h"
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/model_variant.h"
#include "properties/subject_registry.h"
#include "properties/transcript_comparison.h"
#include "properties/yardstick.h"

namespace kvconform {
namespace {

struct Variant {
  const char* name;
  DeadTensors dead;
};
constexpr Variant kVariants[] = {
    {"absent", DeadTensors::absent}, {"random", DeadTensors::random}, {"NaN", DeadTensors::nan}};

std::vector<double> all_logits(Subject& subject, const ModelSource& source, const Case& test_case,
                               int vocab_size) {
  const LoadedModel model(subject, source);
  std::vector<double> all;
  for (const CallRecord& record :
       run_calls(subject, model.id(), test_case.calls, vocab_size, false)) {
    const auto& values = record.output.logits.values;
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Budgets of every logit of a case, position by position; infinity where experts may flip.
std::vector<double> all_budgets(Yardstick& yardstick, const Case& test_case, int vocab_size) {
  for (const TokenHistory& history : longest_histories(test_case.calls)) {
    yardstick.assess(history, false);
  }
  std::vector<double> budgets;
  RowLedger ledger;
  for (const Call& call : test_case.calls) {
    for (const RowSpan& span : ledger.apply(call)) {
      const Assessment& a = yardstick.assess(span.history, false);
      for (int i = span.first; i < static_cast<int>(span.history.tokens.size()); ++i) {
        budgets.insert(budgets.end(), vocab_size, a.ill_conditioned[i] ? HUGE_VAL : a.budget[i]);
      }
    }
  }
  return budgets;
}

double largest_change(const std::vector<double>& before, const std::vector<double>& after) {
  double largest = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    largest = std::max(largest, std::abs(after[i] - before[i]));
  }
  return largest;
}

class DeadTensorsProperty : public GeneratedProperty {
 public:
  const char* name() const override { return "dead-tensors"; }
  const char* sentence() const override {
    return "Projections of layers that read another layer's keys change nothing, even NaN; those "
           "of the layer they read do.";
  }
  const char* source() const override { return "transformers #45336, vLLM #54917, lattice #992"; }
  std::vector<std::string> needs() const override { return {"score"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      const std::vector<LayerPlan> plan = plan_layers(config);
      const auto consumer = std::find_if(plan.rbegin(), plan.rend(),
                                         [](const LayerPlan& l) { return !l.owns_keys(); });
      if (consumer == plan.rend()) {
        return Verdict{VerdictKind::not_applicable, "no layer of the model reads another's keys",
                       std::nullopt, 0, ""};
      }
      const Verdict silent = dead_ones_are_silent(test_case, judgement, config, *consumer);
      if (silent.kind != VerdictKind::conforms) return silent;
      return owner_is_heard(test_case, judgement, config, *consumer);
    });
  }

 protected:
  ModelWishes wishes() const override {
    ModelWishes wishes;
    wishes.consumers = true;
    return wishes;
  }
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const bool score = draw.chance(50);
    if (score || !bounds.cache) return draw_score(draw, bounds);
    return draw_chunked_prompt(draw, bounds, 1);
  }

 private:
  static Verdict dead_ones_are_silent(const Case& test_case, Judgement& judgement,
                                      const ModelConfig& config, const LayerPlan& consumer) {
    std::vector<double> plain;
    for (const Variant& variant : kVariants) {
      const auto source = with_dead_tensors(judgement.model, variant.dead);
      const auto logits = all_logits(judgement.subject, *source, test_case, config.vocab_size);
      if (plain.empty()) {
        plain = logits;
        continue;
      }
      const RowComparison same = compare_bits(plain, logits);  // the same calls: the same bits
      if (same.within || within_budget(same, judgement, test_case, config, plain, logits)) {
        continue;
      }
      Verdict verdict = difference(consumer, variant.name, same, plain, logits);
      if (wants_traces(judgement))
        look_closer([&] { locate(verdict, variant, test_case, judgement, config); });
      return verdict;
    }
    return {};
  }

  /// Where the computations with the first variant and with this one part.
  static void locate(Verdict& verdict, const Variant& variant, const Case& test_case,
                     Judgement& judgement, const ModelConfig& config) {
    const auto traced = [&](DeadTensors dead) {
      const auto source = with_dead_tensors(judgement.model, dead);
      const LoadedModel model(judgement.subject, *source);
      return run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, true);
    };
    const Transcript before = traced(kVariants[0].dead), after = traced(variant.dead);
    const SamePlace place(before, test_case.calls, !config.bidirectional_all);
    const auto expected = [&](const At& at) { return place.find(at); };
    const Verdict parted = comparison_within(test_case, judgement, config, expected).judge(after);
    if (parted.first_difference) verdict.first_difference = parted.first_difference;
  }

  /// A subject that promises no bits is given the budget of two computations.
  static bool within_budget(const RowComparison& same, Judgement& judgement, const Case& test_case,
                            const ModelConfig& config, const std::vector<double>& plain,
                            const std::vector<double>& seen) {
    if (judgement.subject.info().bit_stable || !same.reason.empty()) return false;
    const auto budgets = all_budgets(judgement.yardstick, test_case, config.vocab_size);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (!(std::abs(plain[i] - seen[i]) <= 2 * budgets[i])) return false;
    }
    return true;
  }

  static Verdict difference(const LayerPlan& consumer, const char* variant,
                            const RowComparison& row, const std::vector<double>& plain,
                            const std::vector<double>& seen) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.budget_used = row.budget_used;
    const Difference at = worst_of(row, plain, seen);
    verdict.first_difference = at;
    verdict.message = fmt::format(
        "logits change when the dead projections of consumers are {}: {:.9g} "
        "becomes {:.9g}",
        variant, at.expected, at.seen);
    verdict.cause = fmt::format(
        "consumers (layer {} among them) use projections of their own, which a loader must skip",
        consumer.layer);
    return verdict;
  }

  /// Turning the owner's keys and values over must move the logits, where it moves the truth.
  static Verdict owner_is_heard(const Case& test_case, Judgement& judgement,
                                const ModelConfig& config, const LayerPlan& consumer) {
    const auto before = with_dead_tensors(judgement.model, DeadTensors::absent);
    const auto after = with_negated_keys(*before, consumer.owner);
    const auto truth = make_subject("reference:double");
    const auto true_before = all_logits(*truth, *before, test_case, config.vocab_size);
    const auto true_after = all_logits(*truth, *after, test_case, config.vocab_size);
    const auto seen_before = all_logits(judgement.subject, *before, test_case, config.vocab_size);
    const auto seen_after = all_logits(judgement.subject, *after, test_case, config.vocab_size);
    // The common case needs no yardstick: the subject moves about as far as the truth does.
    const double moved = largest_change(seen_before, seen_after);
    if (moved > 0 && moved >= largest_change(true_before, true_after) / 2) return {};
    const auto budgets = all_budgets(judgement.yardstick, test_case, config.vocab_size);
    bool asked = false;
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      // Four budgets: two computations on each side of a change that the subject must show.
      if (!(std::abs(true_after[i] - true_before[i]) > 4 * budgets[i])) continue;
      if (seen_after[i] != seen_before[i]) return {};  // one logit that moves is proof enough
      asked = true;
    }
    if (!asked) return {};
    Verdict deaf;
    deaf.kind = VerdictKind::differs;
    deaf.message = fmt::format(
        "no logit moves when the keys and values of layer {} are turned over", consumer.owner);
    return deaf;
  }
};

}  // namespace

std::unique_ptr<Property> dead_tensors() {
  return std::make_unique<DeadTensorsProperty>();
}

}  // namespace kvconform
