// Finite weights and tokens give finite logits, also where sums of squares, exponentials or cubes
// would leave the range of a small number format although the model itself stays well inside.
//
// Source: transformers #36832 (large norm weights in float16), nntrainer #3935 (sum of squares in
// float16), rocMLIR #2371 and transformers #47678 (rows and splits without keys), model-spec.md,
// 6.4 (an embedding row of zeros). Needs: score or cache, whichever the case uses. The case chooses
// what is large. Where the truth comes near the range of the subject's numbers, nothing is asked.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "properties/budget_words.h"
#include "properties/case_choice.h"
#include "properties/comparison.h"
#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/model_draft.h"
#include "properties/subject_registry.h"
#include "properties/transcript_comparison.h"

namespace kvconform {
namespace {

using Source = std::unique_ptr<ModelSource>;

/// A power of two that the case chooses: exact in every format.
float magnitude(const Case& test_case, int least, int most) {
  const auto span = static_cast<std::uint64_t>(most - least + 1);
  const int power = least + static_cast<int>(choice_of(test_case, "magnitude") % span);
  return std::ldexp(1.0F, power);
}

/// Tens, or thousands for formats with the exponents of float32 (float16 is then asked nothing).
float large(const Case& test_case) {
  const bool huge = choice_of(test_case, "huge") % 2 == 0;
  return huge ? magnitude(test_case, 10, 12) : magnitude(test_case, 4, 6);
}

void scale_in_layers(ModelDraft& draft, const char* name, float factor) {
  for (int i = 0; i < draft.parsed().num_layers; ++i) draft.scale(layer_tensor(i, name), factor);
}

void as_drawn(ModelDraft&, const Case&) {}

/// A stream of some hundred or more: its squares leave float16.
void large_embedding(ModelDraft& draft, const Case& test_case) {
  draft.scale("embed_tokens.weight", large(test_case));
  // A tied head would take the factor to the logits, squared.
  draft.scale("norm.weight", 1 / large(test_case));
}

void large_post_norms(ModelDraft& draft, const Case& test_case) {
  scale_in_layers(draft, "post_attention_layernorm.weight", large(test_case));
  scale_in_layers(draft, "post_feedforward_layernorm.weight", large(test_case));
}

/// Scores of hundreds: their exponentials leave every format unless the largest is taken away.
void large_scores(ModelDraft& draft, const Case& test_case) {
  scale_in_layers(draft, "self_attn.q_norm.weight", magnitude(test_case, 3, 4));
  scale_in_layers(draft, "self_attn.k_norm.weight", magnitude(test_case, 3, 4));
}

/// tanh of hundreds; as a quotient of exponentials it would be infinity over infinity.
void large_logits(ModelDraft& draft, const Case& test_case) {
  draft.config()["final_logit_softcapping"] = 2.0;
  draft.scale("norm.weight", magnitude(test_case, 5, 7));
}

/// gelu of tens: x³ leaves float16 from 41 on.
void large_gates(ModelDraft& draft, const Case& test_case) {
  scale_in_layers(draft, "mlp.gate_proj.weight", magnitude(test_case, 4, 5));
  scale_in_layers(draft, "mlp.down_proj.weight", 1 / magnitude(test_case, 4, 5));
}

/// As the pad row of a fresh model: the size of the stream is 0.
void embedding_row_of_zeros(ModelDraft& draft, const Case& test_case) {
  int token = 0;
  for (const Call& call : test_case.calls) {
    for (const auto& row : call.tokens) {
      if (!row.empty()) token = row[row.size() / 2];
    }
  }
  const std::int64_t width = draft.parsed().hidden_size;
  draft.change("embed_tokens.weight",
               [&](std::int64_t i, float x) { return i / width == token ? 0.0F : x; });
}

/// Streams that are copies times 0: their sizes are divided by.
void altup_projections_of_zero(ModelDraft& draft, const Case&) {
  const ModelConfig config = draft.parsed();
  for (int s = 0; s + 1 < config.altup_num_inputs && config.family == Family::gemma3n; ++s) {
    draft.scale(fmt::format("altup_projections.{}.weight", s), 0);
  }
}

/// Not where a rewind was drawn for a longer window: it may be out of reach with this one.
void window_of_one(ModelDraft& draft, const Case& test_case) {
  const bool rewinds = std::any_of(test_case.calls.begin(), test_case.calls.end(),
                                   [](const Call& c) { return c.kind == Call::Kind::rewind; });
  if (!rewinds) draft.config()["sliding_window"] = 1;
}

struct Stress {
  const char* description;
  void (*put)(ModelDraft&, const Case&);
};

constexpr Stress kStresses[] = {{"weights are as drawn", as_drawn},
                                {"the embedding is large", large_embedding},
                                {"post-norm weights are large", large_post_norms},
                                {"attention scores are large", large_scores},
                                {"logits far exceed their soft cap", large_logits},
                                {"gates are large", large_gates},
                                {"an embedding row is zero", embedding_row_of_zeros},
                                {"AltUp projections are zero", altup_projections_of_zero},
                                {"the window is one token", window_of_one}};

/// What the truth may reach for the subject to have no excuse: a sixteenth of the largest number.
/// AltUp measures streams by squares in the model's own format (model-spec.md, 3.1 and 3.3), so in
/// float16 the streams of Gemma 3n must leave room for their squares.
double largest_asked(const std::string& dtype, Family family) {
  if (dtype == "float16") return family == Family::gemma3n ? 128 : 65504.0 / 16;
  return 3.38e38 / 16;  // bfloat16 has the exponents of float32; float64 has float32's weights
}

class Finite : public GeneratedProperty {
 public:
  const char* name() const override { return "finite"; }
  const char* sentence() const override {
    return "Finite weights and tokens give finite logits, and still the model's, in every range "
           "the "
           "number format allows.";
  }
  const char* source() const override {
    return "transformers #36832, nntrainer #3935, rocMLIR #2371, transformers #47678";
  }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      const Stress& stress = kStresses[choice_of(test_case, "stress") % std::size(kStresses)];
      const Source own = stressed(test_case, judgement, stress);
      const ModelSource& source = own ? *own : judgement.model;
      const LoadedModel model(judgement.subject, source);
      const Transcript seen = run_calls(judgement.subject, model.id(), test_case.calls,
                                        config.vocab_size, wants_traces(judgement));
      std::optional<Verdict> found = first_not_finite(seen, stress);
      if (!found && own) found = first_lost(test_case, judgement, config, source, seen, stress);
      if (!found) return Verdict{};
      if (stays_inside(test_case, judgement, source, config)) return *found;
      return Verdict{VerdictKind::ill_conditioned,
                     "the model itself leaves the range of the subject's numbers", std::nullopt, 0,
                     ""};
    });
  }

 protected:
  /// Prompts of one token, rows of none, and all that other properties draw.
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int style = draw.between(0, 3);
    if (style == 0 || !bounds.cache) return draw_score(draw, bounds);
    if (style == 1) {
      const int batch = draw.one_of({1, 2, 3});
      return draw_chunked_prompt(draw, bounds, batch);
    }
    if (style == 2) return draw_session_life(draw, bounds);
    Call score;
    score.kind = Call::Kind::score;
    score.tokens = {draw_tokens(draw, bounds, 1)};
    return {score};
  }

 private:
  /// Null: the model as it is. Checkpoints are not changed.
  static Source stressed(const Case& test_case, Judgement& judgement, const Stress& stress) {
    if (!is_generated(test_case)) return nullptr;
    ModelDraft draft = ModelDraft::of(*judgement.model.checkpoint());
    stress.put(draft, test_case);
    return draft.source();
  }

  static std::optional<Verdict> first_not_finite(const Transcript& seen, const Stress& stress) {
    for (const CallRecord& record : seen) {
      int index = 0;
      for (const RowSpan& span : record.rows) {
        const int end = static_cast<int>(span.history.tokens.size());
        for (int token = span.first; token < end; ++token, ++index) {
          const double* row = record.output.logits.row(index);
          const double* last = row + record.output.logits.vocab;
          const double* bad =
              std::find_if_not(row, last, [](double x) { return std::isfinite(x); });
          if (bad == last) continue;
          Difference at;
          at.part = "logits";
          at.call = record.call;
          at.row = span.row;
          at.token = token;
          at.dimension = static_cast<int>(bad - row);
          at.seen = *bad;
          at.expected = std::nan("");  // any finite number would have done
          at.budget_used = HUGE_VAL;
          return not_finite(first_place(record, at), stress);
        }
      }
    }
    return std::nullopt;
  }

  /// Overflow that leaves no trace: a norm divides by infinity, and 0 goes on. Counts where the
  /// subject agrees with the model before anything is large.
  static std::optional<Verdict> first_lost(const Case& test_case, Judgement& judgement,
                                           const ModelConfig& config, const ModelSource& source,
                                           const Transcript& seen, const Stress& stress) {
    const std::string& dtype = judgement.subject.info().dtype;
    const auto longest = longest_histories(test_case.calls, !config.bidirectional_all);
    Gauge gauge(source, dtype), plain(judgement.model, dtype, &judgement.yardstick);
    gauge.prepare(longest);
    plain.prepare(longest);
    std::optional<Transcript> before;
    std::optional<Verdict> lost;
    for_each_position(seen, [&](const At& at) {
      if (lost) return;
      const auto row = against_truth(gauge, at, at.record.output.logits, at.index);
      if (!row || row->within) return;
      if (!before) {
        const LoadedModel model(judgement.subject, judgement.model);
        before =
            run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, false);
      }
      const auto old = SamePlace(*before, test_case.calls, !config.bidirectional_all).find(at);
      if (!old) return;
      const auto old_row = against_truth(plain, at, old->output->logits, old->position);
      if (old_row && old_row->within) {
        lost = lost_verdict(at, *row, gauge.truth(at.span.history, at.token), stress);
      }
    });
    return lost;
  }

  static std::optional<RowComparison> against_truth(Gauge& gauge, const At& at,
                                                    const Logits& logits, int position) {
    return gauge.compare(at.span.history, at.token, gauge.truth(at.span.history, at.token),
                         logits_row(logits, position), 1);
  }

  static Verdict lost_verdict(const At& at, const RowComparison& row, std::span<const double> truth,
                              const Stress& stress) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.budget_used = row.budget_used;
    verdict.first_difference = worst_at(at, row, truth);
    verdict.message = fmt::format(
        "where {}: token {} is {} the budget away from the model, which it agrees with otherwise",
        stress.description, at.token, times_of_budget(row.budget_used));
    verdict.cause =
        "a number that overflowed and was divided away: a sum of squares in too small a format "
        "(nntrainer #3935)";
    return verdict;
  }

  /// The first array of the trace with a number that is not finite, if there is a trace.
  static Difference first_place(const CallRecord& record, const Difference& at) {
    for (const TraceArray& array : record.output.trace) {
      const auto bad = std::find_if_not(array.values.begin(), array.values.end(),
                                        [](double x) { return std::isfinite(x); });
      if (bad == array.values.end()) continue;
      Difference place = decode(array, 0, 0);
      place.call = at.call;
      place.row = at.row;
      place.token = at.token;
      place.seen = *bad;
      place.expected = at.expected;
      place.budget_used = HUGE_VAL;
      place.dimension = -1;
      return place;
    }
    return at;
  }

  static Verdict not_finite(const Difference& at, const Stress& stress) {
    Verdict verdict;
    verdict.kind = VerdictKind::differs;
    verdict.first_difference = at;
    verdict.budget_used = HUGE_VAL;
    verdict.message = fmt::format("where {}: a logit of token {} (call {}, row {}) is {}",
                                  stress.description, at.token, at.call, at.row, at.seen);
    verdict.cause =
        "a sum of squares, an exponential or a cube in too small a format (nntrainer #3935), a row "
        "or split without keys (rocMLIR #2371), or a division by the size of a zero vector";
    return verdict;
  }

  static bool stays_inside(const Case& test_case, Judgement& judgement, const ModelSource& source,
                           const ModelConfig& config) {
    const auto truth = make_subject("reference:double");
    const LoadedModel model(*truth, source);
    const double most = largest_asked(judgement.subject.info().dtype, config.family);
    for (const CallRecord& record :
         run_calls(*truth, model.id(), test_case.calls, config.vocab_size, true)) {
      for (const TraceArray& array : record.output.trace) {
        const bool inside = std::all_of(array.values.begin(), array.values.end(),
                                        [most](double x) { return std::abs(x) <= most; });
        if (!inside) return false;
      }
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<Property> finite() {
  return std::make_unique<Finite>();
}

}  // namespace kvconform
