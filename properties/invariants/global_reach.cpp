// Layers with full attention see the first token however long ago it was: changing it moves the
// last logits, far past every window, in one call and in many.
//
// Source: vLLM #21863 (the model-wide window on global layers), vLLM #51756 (a layer takes its
// neighbour's window), lmdeploy #3772. Needs: score or cache, whichever the case uses. Asked only
// where the model itself moves by more than the noise, which the first token does in most draws:
// prompts are longer than sliding layers alone can carry it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/localisation.h"
#include "properties/shrinking.h"
#include "reference/error.h"

namespace kvconform {
namespace {

/// A healthy subject moves a logit by at least this share of what the truth does, wherever that is
/// eight budgets: two on each side of the change would already explain half of it.
constexpr double kHeard = 0.25;
constexpr double kBudgets = 8;
/// Logits that move by less than this share of the most moved one are not asked about.
constexpr double kAsked = 0.1;

bool has_full_layer(const ModelConfig& config) {
  return std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::full) > 0;
}

/// The first token of every row that begins with a call on an empty row.
std::vector<Call> with_another_beginning(const std::vector<Call>& calls, int vocab_size) {
  std::vector<Call> changed = calls;
  RowLedger ledger;
  for (Call& call : changed) {
    for (const RowSpan& span : ledger.apply(call)) {
      if (span.first > 0 || span.count() == 0) continue;
      int& token = call.tokens[span.row][0];
      token = (token + 1) % vocab_size;
    }
  }
  return changed;
}

struct Moved {
  std::span<const double> before, after;
  double by(std::size_t i) const { return after[i] - before[i]; }
};

double most(const Moved& moved) {
  double largest = 0;
  for (std::size_t i = 0; i < moved.before.size(); ++i) {
    largest = std::max(largest, std::abs(moved.by(i)));
  }
  return largest;
}

/// The most moved logit that the subject does not move; −1 if there is none. `noise`: what a
/// movement must exceed to be asked about.
int unheard(const Moved& truth, const Moved& seen, double noise) {
  const double asked = std::max(kAsked * most(truth), noise);
  int worst = -1;
  for (std::size_t i = 0; i < truth.before.size(); ++i) {
    if (!(std::abs(truth.by(i)) > asked)) continue;
    if (std::abs(seen.by(i)) >= kHeard * std::abs(truth.by(i))) continue;
    if (worst < 0 || std::abs(truth.by(i)) > std::abs(truth.by(worst))) worst = static_cast<int>(i);
  }
  return worst;
}

std::span<const double> last_row(const CallRecord& record, const RowSpan& span, int index) {
  return logits_row(record.output.logits, index + span.count() - 1);
}

class GlobalReach : public GeneratedProperty {
 public:
  const char* name() const override { return "global-reach"; }
  const char* sentence() const override {
    return "Layers with full attention see the first token from however far away.";
  }
  const char* source() const override { return "vLLM #21863, vLLM #51756, lmdeploy #3772"; }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      if (!has_full_layer(config)) {
        return Verdict{VerdictKind::not_applicable, "every layer of the model slides", std::nullopt,
                       0, ""};
      }
      Verdict verdict = judge_reach(test_case, judgement, config);
      if (verdict.kind != VerdictKind::differs) return verdict;
      if (const auto place = locate(test_case, judgement)) verdict.first_difference = place;
      return verdict;
    });
  }

 protected:
  /// One full layer among sliding ones with small windows; sometimes several, or nothing else.
  ModelSpec draw_model_for(Draw& draw, CaseSize size) const override {
    ModelSpec spec = draw_model(draw, size, {});
    nlohmann::json config = nlohmann::json::parse(spec.config_text);
    const int layers = draw.between(2, 4);
    const int style = draw.between(0, 3);
    const int alone =
        config["model_type"] == "gemma4_text" ? layers - 1 : draw.between(0, layers - 1);
    std::vector<std::string> types;
    for (int i = 0; i < layers; ++i) {
      const bool also = draw.chance(50);
      const bool full = i == alone || style == 0 || (style == 1 && also);
      types.push_back(full ? "full_attention" : "sliding_attention");
    }
    config["layer_types"] = types;
    config["num_hidden_layers"] = layers;
    config["sliding_window"] = draw.one_of({1, 2, 2, 3});
    config.erase("kv_sharing_map");
    for (const char* list : {"activation_sparsity_pattern", "intermediate_size"}) {
      if (!config.contains(list) || !config[list].is_array()) continue;
      nlohmann::json shorter = nlohmann::json::array();
      for (int i = 0; i < layers; ++i) shorter.push_back(config[list][i % config[list].size()]);
      config[list] = shorter;
    }
    share_as_drawn(config, draw.between(0, layers - 1));
    spec.config_text = config.dump();
    return spec;
  }

  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int style = draw.between(0, 3);
    const int beyond = 4 * std::max(0, bounds.window - 1) + 2;
    const int length = beyond + draw.between(0, 6);
    const std::vector<int> prompt = draw_tokens(draw, bounds, length);
    Call score;
    score.kind = Call::Kind::score;
    score.tokens = {prompt};
    if (style == 0 || !bounds.cache) return {score};
    Call open;
    open.kind = Call::Kind::open;
    open.capacity = length;
    std::vector<int> chunks = draw_chunks(draw, bounds, length);
    if (style == 1) chunks = {length};
    if (style == 2) chunks.assign(static_cast<std::size_t>(length), 1);
    std::vector<Call> calls = {open};
    int fed = 0;
    for (int chunk : chunks) {
      Call extend;
      extend.tokens = {{prompt.begin() + fed, prompt.begin() + fed + chunk}};
      calls.push_back(extend);
      fed += chunk;
    }
    return calls;
  }

 private:
  /// As many shared layers as asked, or the most below that which have owners.
  static void share_as_drawn(nlohmann::json& config, int shared) {
    for (; shared > 0; --shared) {
      config["num_kv_shared_layers"] = shared;
      try {
        plan_layers(parse_model_config(config));
        return;
      } catch (const Error&) {
        continue;  // a type has no layer below the shared ones
      }
    }
    config["num_kv_shared_layers"] = 0;
  }

  static Verdict judge_reach(const Case& test_case, Judgement& judgement,
                             const ModelConfig& config) {
    const int vocab = prompt_bounds(test_case.model, CaseSize::standard).vocab_size;
    const std::vector<Call> changed = with_another_beginning(test_case.calls, vocab);
    const LoadedModel model(judgement.subject, judgement.model);
    const auto run = [&](const std::vector<Call>& calls) {
      return run_calls(judgement.subject, model.id(), calls, config.vocab_size, false);
    };
    const Transcript before = run(test_case.calls), after = run(changed);
    if (before.empty()) return {};
    Gauge gauge(judgement.model, judgement.subject.info().dtype, &judgement.yardstick);
    // The last call is the furthest away; earlier ones are what it builds on.
    const CallRecord &first = before.back(), &second = after.back();
    int index = 0;
    for (std::size_t r = 0; r < first.rows.size(); ++r) {
      const int begin = index;
      index += first.rows[r].count();
      if (first.rows[r].count() == 0 || first.rows[r].history.tokens.size() < 2) continue;
      const Verdict row = judge_row(first, second, r, begin, gauge);
      if (row.kind != VerdictKind::conforms) return row;
    }
    return {};
  }

  /// The last token of one row.
  static Verdict judge_row(const CallRecord& first, const CallRecord& second, std::size_t r,
                           int index, Gauge& gauge) {
    const RowSpan &span = first.rows[r], &other = second.rows[r];
    const int token = static_cast<int>(span.history.tokens.size()) - 1;
    const Moved truth{gauge.truth(span.history, token), gauge.truth(other.history, token)};
    const Moved seen{last_row(first, span, index), last_row(second, other, index)};
    if (unheard(truth, seen, 0) < 0) return {};  // the common case needs no yardstick
    const auto budget = gauge.budget(span.history, token);
    const auto other_budget = gauge.budget(other.history, token);
    if (!budget || !other_budget) return {};
    const int deaf = unheard(truth, seen, kBudgets * std::max(*budget, *other_budget));
    return deaf < 0 ? Verdict{} : verdict_of(first, span, token, deaf, truth, seen);
  }

  static Verdict verdict_of(const CallRecord& record, const RowSpan& span, int token, int logit,
                            const Moved& truth, const Moved& seen) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    Difference at;
    at.part = "logits";
    at.call = record.call;
    at.row = span.row;
    at.token = token;
    at.dimension = logit;
    at.expected = truth.by(static_cast<std::size_t>(logit));
    at.seen = seen.by(static_cast<std::size_t>(logit));
    verdict.first_difference = at;
    verdict.message = fmt::format(
        "another first token moves logit {} of token {} by {:.4g}; the model's moves by {:.4g}",
        logit, token, at.seen, at.expected);
    verdict.cause =
        "full layers do not see the first token: a window on layers that have none (vLLM #21863), "
        "or on one that takes its neighbour's (vLLM #51756)";
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> global_reach() {
  return std::make_unique<GlobalReach>();
}

}  // namespace kvconform
