// Two models that are equal by construction give equal logits: another spelling of one config, an
// option at the value at which it does nothing, copies instead of references.
//
// Source: model-spec.md, sections 1 to 6; no reference is needed, so this catches what a reference
// with the same misunderstanding would not. Needs: score or cache, whichever the case uses. The
// pairs: equal_configuration_rules.h. The case chooses one of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/case_choice.h"
#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/generated_property.h"
#include "properties/invariants/equal_configuration_rules.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/transcript_comparison.h"

namespace kvconform {
namespace {

std::vector<EqualityRule> all_rules() {
  std::vector<EqualityRule> rules = spelling_rules();
  rules.insert(rules.end(), weight_rules().begin(), weight_rules().end());
  return rules;
}

int longest_row(const std::vector<Call>& calls) {
  std::size_t longest = 1;
  for (const TokenHistory& history : longest_histories(calls)) {
    longest = std::max(longest, history.tokens.size());
  }
  return static_cast<int>(longest);
}

/// What the right side must show, from what the left side showed.
void transform(Transcript& left, const EqualPair& pair) {
  for (CallRecord& record : left) {
    for (double& value : record.output.logits.values) {
      if (pair.cap) value = *pair.cap * std::tanh(value / *pair.cap);
      value *= pair.scale;
    }
  }
}

class EqualConfigurations : public GeneratedProperty {
 public:
  const char* name() const override { return "equal-configurations"; }
  const char* sentence() const override {
    return "Configurations that mean the same model, and weights that compute the same, give the "
           "same logits.";
  }
  const char* source() const override { return "model-spec.md, sections 1 to 6"; }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      if (!is_generated(test_case)) {
        return Verdict{VerdictKind::not_applicable, "only models drawn here are changed",
                       std::nullopt, 0, ""};
      }
      RuleInput input{nlohmann::json::parse(test_case.model.config_text),
                      test_case.model.weights,
                      config,
                      longest_row(test_case.calls),
                      judgement.subject.info().capabilities.count("sharing_map") > 0,
                      choice_of(test_case, "form")};
      static const std::vector<EqualityRule> rules = all_rules();
      const EqualityRule* rule = choose_fitting(
          rules, test_case, "rule", [&](const EqualityRule& r) { return r.applies(input); });
      return judge_pair(test_case, judgement, config, *rule, rule->make(input));
    });
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const bool score = draw.chance(40);
    if (score || !bounds.cache) return draw_score(draw, bounds);
    return draw_chunked_prompt(draw, bounds, 1);
  }

 private:
  static Verdict judge_pair(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                            const EqualityRule& rule, const EqualPair& pair) {
    const auto left = pair.left.source(), right = pair.right.source();
    const bool trace = rule.same_layers && wants_traces(judgement);
    const auto run = [&](const ModelSource& source) {
      const LoadedModel model(judgement.subject, source);
      return run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, trace);
    };
    Transcript expected = run(*left);
    const Transcript seen = run(*right);
    transform(expected, pair);
    Yardstick yardstick(left->checkpoint(), judgement.subject.info().dtype);
    Judgement of_pair{*left, judgement.subject, judgement.against, yardstick, trace};
    Gauge gauge(*left, judgement.subject.info().dtype, &yardstick);
    gauge.prepare(longest_histories(test_case.calls));
    const SamePlace same(expected, test_case.calls, !config.bidirectional_all);
    TranscriptComparison comparison =
        comparison_within(test_case, of_pair, config, [&](const At& at) { return same.find(at); });
    comparison.bits = comparison.bits && rule.same_arithmetic;
    comparison.widening *= pair.scale;
    comparison.gauge = &gauge;
    Verdict verdict = comparison.judge(seen);
    if (verdict.kind == VerdictKind::differs) {
      verdict.message = fmt::format("not so: {}; {}", rule.sentence, verdict.message);
      verdict.cause = fmt::format("two models that should be one: {}", rule.sentence);
      locate_pair(verdict, test_case, judgement, pair);
    }
    return verdict;
  }

  /// Where layers of the two sides do not stand for each other, or a whole layer's work was spread
  /// otherwise, the side that leaves the model is the one to look at.
  static void locate_pair(Verdict& verdict, const Case& test_case, Judgement& judgement,
                          const EqualPair& pair) {
    for (const ModelDraft* side : {&pair.left, &pair.right}) {
      verdict.models.push_back(side->config().dump());
      if (verdict.first_difference->part != "logits") continue;
      if (const auto place = locate_in(*side->source(), test_case, judgement))
        verdict.first_difference = place;
    }
  }
};

}  // namespace

std::unique_ptr<Property> equal_configurations() {
  return std::make_unique<EqualConfigurations>();
}

}  // namespace kvconform
