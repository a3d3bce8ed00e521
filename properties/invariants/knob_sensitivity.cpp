// Each field of a config that must matter does, and in the right way; each that must not does not.
//
// Source: sglang #33915 (a soft cap accepted and ignored), mobius #371 (a window left unset),
// vllm-metal #550; model-spec.md, section 1. Needs: score or cache, whichever the case uses. The
// case chooses two knobs, or one field without effect. A subject that agrees with the model before
// a knob is turned must agree with it afterwards; where it never agreed, that is another property's
// business, unless nothing moves at all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/case_choice.h"
#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/generated_property.h"
#include "properties/invariants/config_knobs.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/model_draft.h"
#include "properties/transcript_comparison.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

bool valid(const json& config) {
  try {
    plan_layers(parse_model_config(config));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool is_causal(const ModelSource& source) {
  return !source.checkpoint()->config().bidirectional_all;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  return compare_within(a, b, HUGE_VAL).error;
}

/// A knob, turned for a case; the subject before and after.
class Turn {
 public:
  Turn(const Case& test_case, Judgement& judgement, const char* name, const ModelSource& turned)
      : test_case_(test_case),
        judgement_(judgement),
        name_(name),
        turned_(turned),
        before_(judgement.model, judgement.subject.info().dtype, &judgement.yardstick),
        after_(turned, judgement.subject.info().dtype) {
    before_.prepare(longest_histories(test_case.calls));
    after_.prepare(longest_histories(test_case.calls, is_causal(turned)));
  }

  Verdict judge() {
    const Transcript seen = run(turned_);
    Verdict verdict;
    for_each_position(seen, [&](const At& at) {
      if (verdict.kind != VerdictKind::conforms) return;
      verdict = judge_position(at);
    });
    return verdict;
  }

 private:
  Transcript run(const ModelSource& source) {
    const LoadedModel model(judgement_.subject, source);
    const int vocab = source.checkpoint()->config().vocab_size;
    return run_calls(judgement_.subject, model.id(), test_case_.calls, vocab, false);
  }

  Verdict judge_position(const At& at) {
    const TokenHistory& history = at.span.history;
    const auto have = at.logits(), want = after_.truth(history, at.token);
    const auto row = after_.compare(history, at.token, want, have, 1);
    if (!row || row->within) return {};
    if (!unturned_) unturned_ = run(judgement_.model);  // only now: most knobs are fine
    const SamePlace same(*unturned_, test_case_.calls, is_causal(judgement_.model));
    const auto old = same.find(at);
    const auto old_have = logits_row(old->output->logits, old->position);
    const auto old_want = before_.truth(history, at.token);
    const auto old_row = before_.compare(history, at.token, old_want, old_have, 1);
    if (!old_row) return {};
    const bool still = largest_difference(old_have, have) == 0;
    if (!old_row->within && !(still && truth_moves(history, at.token))) return {};
    return differs(at, *row, still || stays_at_old_truth(history, at.token, have));
  }

  bool stays_at_old_truth(const TokenHistory& history, int token, std::span<const double> have) {
    const auto row = before_.compare(history, token, before_.truth(history, token), have, 1);
    return row && row->within;
  }

  /// By more than two computations before and two after can err.
  bool truth_moves(const TokenHistory& history, int token) {
    const auto before = before_.budget(history, token), after = after_.budget(history, token);
    if (!before || !after) return false;
    return largest_difference(before_.truth(history, token), after_.truth(history, token)) >
           4 * std::max(*before, *after);
  }

  Verdict differs(const At& at, const RowComparison& row, bool ignored) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.budget_used = row.budget_used;
    const Difference place = worst_at(at, row, after_.truth(at.span.history, at.token));
    verdict.first_difference = place;
    verdict.message =
        fmt::format("with another {}, logit {} of token {} is {:.9g}, the model's {:.9g}", name_,
                    place.dimension, at.token, place.seen, place.expected);
    verdict.cause = ignored ? fmt::format("{} is accepted and ignored", name_)
                            : fmt::format("{} is read, but means something else", name_);
    return verdict;
  }

  const Case& test_case_;
  Judgement& judgement_;
  const char* name_;
  const ModelSource& turned_;
  Gauge before_, after_;
  std::optional<Transcript> unturned_;
};

class KnobSensitivity : public GeneratedProperty {
 public:
  const char* name() const override { return "knob-sensitivity"; }
  const char* sentence() const override {
    return "Each field of a config that must matter does so in the right way, and no other does.";
  }
  const char* source() const override { return "sglang #33915, mobius #371, vllm-metal #550"; }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      if (!is_generated(test_case)) {
        return Verdict{VerdictKind::not_applicable, "only models drawn here are changed",
                       std::nullopt, 0, ""};
      }
      const bool harmless = choice_of(test_case, "kind") % 4 == 0;
      if (harmless) return judge_harmless(test_case, judgement, config);
      const Verdict first = judge_knob(test_case, judgement, config, "knob");
      return first.kind == VerdictKind::conforms
                 ? judge_knob(test_case, judgement, config, "another knob")
                 : first;
    });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const bool score = draw.chance(60);
    if (score || !bounds.cache) return draw_score(draw, bounds);
    return draw_chunked_prompt(draw, bounds, 1);
  }

 private:
  static Verdict judge_knob(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                            const char* purpose) {
    const json text = json::parse(test_case.model.config_text);
    const KnobInput input{text, config, choice_of(test_case, "value")};
    const bool caches = std::any_of(test_case.calls.begin(), test_case.calls.end(),
                                    [](const Call& c) { return c.kind == Call::Kind::open; });
    const auto& capabilities = judgement.subject.info().capabilities;
    const Knob* knob = choose_fitting(config_knobs(), test_case, purpose, [&](const Knob& k) {
      if (k.score_only && caches) return false;
      if (*k.capability != '\0' && !capabilities.count(k.capability)) return false;
      const auto turned = k.turn(input);
      return turned && valid(*turned);
    });
    const auto source = ModelDraft::drawn(*knob->turn(input), test_case.model.weights).source();
    Verdict verdict = Turn(test_case, judgement, knob->name, *source).judge();
    if (verdict.kind != VerdictKind::differs) return verdict;
    if (const auto place = locate_in(*source, test_case, judgement))
      verdict.first_difference = place;
    verdict.models = {source->text_config().dump()};
    return verdict;
  }

  static Verdict judge_harmless(const Case& test_case, Judgement& judgement,
                                const ModelConfig& config) {
    const HarmlessField* field = choose_fitting(
        harmless_config_fields(), test_case, "field",
        [&](const HarmlessField& f) { return !f.family || *f.family == config.family; });
    ModelDraft draft = ModelDraft::of(*judgement.model.checkpoint());
    draft.config()[field->name] = json::parse(field->value);
    const auto source = draft.source();
    const bool trace = wants_traces(judgement);
    const auto run = [&](const ModelSource& of) {
      const LoadedModel model(judgement.subject, of);
      return run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, trace);
    };
    const Transcript expected = run(judgement.model), seen = run(*source);
    Gauge gauge(judgement.model, judgement.subject.info().dtype, &judgement.yardstick);
    gauge.prepare(longest_histories(test_case.calls));
    const SamePlace same(expected, test_case.calls, !config.bidirectional_all);
    TranscriptComparison comparison = comparison_within(
        test_case, judgement, config, [&](const At& at) { return same.find(at); });
    comparison.gauge = &gauge;
    Verdict verdict = comparison.judge(seen);
    if (verdict.kind == VerdictKind::differs) {
      verdict.message = fmt::format("with {} = {}: {}", field->name, field->value, verdict.message);
      verdict.cause = fmt::format("{} has no meaning here, but is used", field->name);
    }
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> knob_sensitivity() {
  return std::make_unique<KnobSensitivity>();
}

}  // namespace kvconform
