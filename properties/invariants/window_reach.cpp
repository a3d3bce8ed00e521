// A sliding model of L layers sees W − 1 tokens further back with each layer and no further: a
// change L·(W − 1) + 1 tokens back moves no logit, a change W − 1 back does (W is the window, the
// query's own token included).
//
// Source: model-spec.md, 6.1; transformers #29623, vLLM #3385, Megatron-Bridge #2656, TensorRT-LLM
// #5564. Needs: score. The near half is asked only where the truth itself moves by more than the
// noise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "properties/comparison.h"
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/subject_registry.h"
#include "properties/yardstick.h"
#include "reference/counted.h"

namespace kvconform {
namespace {

using Row = std::vector<int>;

/// Layers of a model whose every layer slides; 0 for others, which see everything.
int sliding_depth(const ModelConfig& config) {
  const bool all = std::all_of(config.layer_types.begin(), config.layer_types.end(),
                               [](AttentionType t) { return t == AttentionType::sliding; });
  return all && !config.bidirectional_all ? config.num_layers : 0;
}

Row with_other_token(Row tokens, int index, int vocab_size) {
  tokens[index] = (tokens[index] + 1) % vocab_size;
  return tokens;
}

std::vector<double> last_logits(const LoadedModel& model, const Row& tokens) {
  const Output output = ask_score(model, {tokens, 0}, false);
  if (output.logits.positions != static_cast<int>(tokens.size())) {
    throw SubjectBroken("score gave no row for each token");
  }
  const double* row = output.logits.row(output.logits.positions - 1);
  return {row, row + output.logits.vocab};
}

class WindowReach : public GeneratedProperty {
 public:
  const char* name() const override { return "window-reach"; }
  const char* sentence() const override {
    return "A sliding layer sees W tokens, its own included: the W-th one back moves no logit, the "
           "one before it does.";
  }
  const char* source() const override {
    return "transformers #29623, vLLM #3385, TensorRT-LLM #5564";
  }
  std::vector<std::string> needs() const override { return {"score"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      const int depth = sliding_depth(config);
      if (depth == 0) {
        return Verdict{VerdictKind::not_applicable, "the model has layers that see everything",
                       std::nullopt, 0, ""};
      }
      const LoadedModel model(judgement.subject, judgement.model);
      for (const Call& call : test_case.calls) {
        for (const Row& tokens : call.tokens) {
          Verdict far = beyond_reach(model, config, depth, tokens, judgement);
          if (far.kind != VerdictKind::conforms) return far;
          Verdict near = within_reach(model, config, tokens, judgement);
          if (near.kind != VerdictKind::conforms) return near;
        }
      }
      return Verdict{};
    });
  }

 protected:
  /// Gemma 3n only: the last layer of Gemma 4 is always full.
  ModelSpec draw_model_for(Draw& draw, CaseSize size) const override {
    ModelWishes wishes;
    wishes.sliding = true;
    wishes.gemma3n_only = true;
    ModelSpec spec = draw_model(draw, size, wishes);
    nlohmann::json config = nlohmann::json::parse(spec.config_text);
    const int layers = draw.one_of({1, 1, 2, 3});
    config["num_hidden_layers"] = layers;
    config["layer_types"] = std::vector<std::string>(layers, "sliding_attention");
    config["num_kv_shared_layers"] = draw.between(0, layers - 1);
    config.erase("kv_sharing_map");
    for (const char* list : {"activation_sparsity_pattern", "intermediate_size"}) {
      while (static_cast<int>(config[list].size()) > layers)
        config[list].erase(config[list].size() - 1);
    }
    spec.config_text = config.dump();
    return spec;
  }

  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    Call call;
    call.kind = Call::Kind::score;
    const int beyond = 3 * std::max(0, bounds.window - 1) + 2;
    const int more = draw.between(0, 4);
    call.tokens = {draw_tokens(draw, bounds, beyond + more)};
    return {call};
  }

 private:
  static Verdict differs(const std::string& message, const RowComparison& row, int token) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.message = message;
    verdict.budget_used = row.budget_used;
    Difference at;
    at.part = "logits";
    at.row = 0;
    at.token = token;
    at.dimension = row.worst;
    at.budget_used = row.budget_used;
    verdict.first_difference = at;
    return verdict;
  }

  /// Where the token that must not be seen first shows in what is computed for the query.
  static void locate(Verdict& verdict, const LoadedModel& model, const Row& tokens,
                     const Row& other, int query, int hidden_size) {
    const Output before = ask_score(model, {tokens, 0}, true);
    const Output after = ask_score(model, {other, 0}, true);
    for (const TraceArray& array : after.trace) {
      const TraceArray* unmoved = find_array(before.trace, array.name);
      if (unmoved == nullptr) continue;
      const auto want = trace_row(*unmoved, query), have = trace_row(array, query);
      const RowComparison row = compare_bits(want, have);
      if (row.within) continue;
      Difference at = decode(array, std::max(0, row.worst), hidden_size);
      at.row = 0;
      at.token = query;
      at.budget_used = row.budget_used;
      if (row.worst >= 0) at.expected = want[row.worst], at.seen = have[row.worst];
      verdict.first_difference = at;
      return;
    }
  }

  static Verdict beyond_reach(const LoadedModel& model, const ModelConfig& config, int depth,
                              const Row& tokens, Judgement& judgement) {
    const int query = static_cast<int>(tokens.size()) - 1;
    const int hidden = query - depth * (config.sliding_window - 1) - 1;
    if (hidden < 0 || config.vocab_size < 2) return {};
    const auto before = last_logits(model, tokens);
    const Row other = with_other_token(tokens, hidden, config.vocab_size);
    const auto after = last_logits(model, other);
    RowComparison same = compare_bits(before, after);
    if (!same.within && !judgement.subject.info().bit_stable) {
      const Assessment& noise = judgement.yardstick.assess({tokens, 0}, false);
      if (noise.ill_conditioned[query]) return {};
      same = compare_within(before, after, 2 * noise.budget[query]);
      if (!same.within && judgement.yardstick.assess_closely({tokens, 0}).ill_conditioned[query])
        return {};
    }
    if (same.within) return {};
    Verdict verdict = differs(
        fmt::format("token {} moves the logits of token {}, {} back: {} of window {} {} {}", hidden,
                    query, query - hidden, counted(depth, "layer"), config.sliding_window,
                    agreeing(depth, "reaches", "reach"), depth * (config.sliding_window - 1)),
        same, query);
    if (same.worst >= 0) {
      verdict.first_difference->expected = before[same.worst];
      verdict.first_difference->seen = after[same.worst];
    }
    // Others may round the untouched rows in another way as well.
    if (wants_traces(judgement) && judgement.subject.info().bit_stable)
      look_closer([&] { locate(verdict, model, tokens, other, query, config.hidden_size); });
    verdict.cause =
        "the window is too wide somewhere: W counts the query's own token (transformers "
        "#29623), or a path ignores it";
    return verdict;
  }

  /// A narrow window and no attention at all look alike from the window's edge.
  static std::string narrow_cause(const LoadedModel& model, const ModelConfig& config,
                                  const Row& tokens, const std::vector<double>& before) {
    const std::string deaf =
        "not even the token before moves it: tokens further back are not attended at all, or the "
        "window is one too narrow";
    if (config.sliding_window == 1) return "the query does not see its own token";
    if (config.sliding_window == 2) return deaf;
    bool hears_neighbour = true;
    look_closer([&] {
      const int neighbour = static_cast<int>(tokens.size()) - 2;
      const Row other = with_other_token(tokens, neighbour, config.vocab_size);
      hears_neighbour = last_logits(model, other) != before;
    });
    return hears_neighbour ? "the window is too narrow, by one or more"
                           : "not even the token before moves it: earlier tokens are not attended";
  }

  static Verdict within_reach(const LoadedModel& model, const ModelConfig& config,
                              const Row& tokens, Judgement& judgement) {
    const int query = static_cast<int>(tokens.size()) - 1;
    const int shown = query - (config.sliding_window - 1);
    if (shown < 0 || config.vocab_size < 2) return {};
    const Row other = with_other_token(tokens, shown, config.vocab_size);
    const auto truth_subject = make_subject("reference:double");
    const LoadedModel truth(*truth_subject, judgement.model);
    const auto true_before = last_logits(truth, tokens), true_after = last_logits(truth, other);
    const auto before = last_logits(model, tokens), after = last_logits(model, other);
    const Assessment& noise = judgement.yardstick.assess({tokens, 0}, false);
    if (noise.ill_conditioned[query]) return {};
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!(std::abs(true_after[i] - true_before[i]) > 4 * noise.budget[query])) continue;
      if (before[i] != after[i]) return {};
      RowComparison deaf;
      deaf.worst = static_cast<int>(i);
      Verdict verdict =
          differs(fmt::format("token {} does not move logit {} of token {}, {} back and inside the "
                              "window of {}; the model's moves by {:.4g}",
                              shown, i, query, query - shown, config.sliding_window,
                              true_after[i] - true_before[i]),
                  deaf, query);
      verdict.first_difference->expected = true_after[i] - true_before[i];
      verdict.first_difference->seen = 0;  // by how much the logit moves
      verdict.cause = narrow_cause(model, config, tokens, before);
      return verdict;
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Property> window_reach() {
  return std::make_unique<WindowReach>();
}

}  // namespace kvconform
