// Judging a transcript position by position.
#include "properties/equivalence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/causes.h"
#include "properties/comparison.h"
#include "properties/requirements.h"
#include "properties/shrinking.h"
#include "properties/yardstick.h"
#include "reference/error.h"

namespace kvconform {
namespace {

/// What an oracle said of one history and all that begins it.
struct Known {
  TokenHistory history;
  Output output;
};

/// Everything a comparison of positions needs.
struct Bench {
  const Case& test_case;
  Judgement& judgement;
  const ModelConfig& config;
  bool bits = false;  ///< bit equality; else budgets
  double widening =
      1;  ///< of the budget: two computations in the precision differ by twice as much
  bool causal = true;
  std::vector<Known> known;

  const Known& at(const TokenHistory& history) const {
    for (const Known& k : known) {
      if (causal ? history.is_prefix_of(k.history) : history == k.history) return k;
    }
    throw HarnessError("KV2390", "no oracle was asked for a history of the case",
                       "report this: longest_histories missed one");
  }

  RowComparison compare(std::span<const double> expected, std::span<const double> seen,
                        double budget) const {
    return bits ? compare_bits(expected, seen) : compare_within(expected, seen, widening * budget);
  }
};

std::span<const double> row_of(const Logits& logits, int position) {
  return {logits.row(position), static_cast<std::size_t>(logits.vocab)};
}

/// Visits every new position: (record, its index in the record's output, span, position in the
/// row).
template <class Visit>
void for_each_position(const Transcript& transcript, Visit visit) {
  for (const CallRecord& record : transcript) {
    int index = 0;
    for (const RowSpan& span : record.rows) {
      const int end = static_cast<int>(span.history.tokens.size());
      for (int token = span.first; token < end; ++token) visit(record, index++, span, token);
    }
  }
}

/// The worst position of all logits, if one is outside.
struct Outcome {
  double budget_used = 0;
  int compared = 0, ill_conditioned = 0;
  std::optional<Difference> worst;
  const CallRecord* record = nullptr;  ///< the first call with a position outside
  std::string reason;
};

Outcome compare_logits(const Bench& bench, const Transcript& seen) {
  Outcome outcome;
  for_each_position(seen, [&](const CallRecord& record, int index, const RowSpan& span, int token) {
    const Known& known = bench.at(span.history);
    double budget = 0;
    if (!bench.bits) {
      const Assessment& assessment = bench.judgement.yardstick.assess(known.history, false);
      if (assessment.ill_conditioned[token]) {
        ++outcome.ill_conditioned;
        return;
      }
      budget = assessment.budget[token];
    }
    ++outcome.compared;
    const auto expected = row_of(known.output.logits, token);
    const auto logits = row_of(record.output.logits, index);
    const RowComparison row = bench.compare(expected, logits, budget);
    outcome.budget_used = std::max(outcome.budget_used, row.budget_used);
    if (row.within) return;
    if (outcome.worst && !(row.budget_used > outcome.worst->budget_used)) return;
    Difference worst;
    worst.part = "logits";
    worst.call = record.call;
    worst.row = span.row;
    worst.token = token;
    worst.dimension = row.worst;
    if (row.worst >= 0) worst.expected = expected[row.worst], worst.seen = logits[row.worst];
    worst.budget_used = row.budget_used;
    outcome.worst = worst;
    outcome.reason = row.reason;
    if (outcome.record == nullptr) outcome.record = &record;
  });
  return outcome;
}

/// The worst row of one trace array over the positions of a call, if one is outside.
std::optional<Difference> compare_array(const Bench& bench, const CallRecord& record,
                                        const TraceArray& array) {
  std::optional<Difference> worst;
  for_each_position({record}, [&](const CallRecord&, int index, const RowSpan& span, int token) {
    const Known& known = bench.at(span.history);
    const TraceArray* expected = find_array(known.output.trace, array.name);
    if (expected == nullptr) return;
    double budget = 0;
    if (!bench.bits) {
      const auto& budgets = bench.judgement.yardstick.assess(known.history, true).trace_budget;
      const auto found = budgets.find(array.name);
      if (found == budgets.end()) return;
      budget = found->second[token];
    }
    const auto want = trace_row(*expected, token), have = trace_row(array, index);
    const RowComparison row = bench.compare(want, have, budget);
    if (row.within || (worst && !(row.budget_used > worst->budget_used))) return;
    Difference place = decode(array, std::max(0, row.worst), bench.config.hidden_size);
    place.call = record.call;
    place.row = span.row;
    place.token = token;
    if (row.worst >= 0) place.expected = want[row.worst], place.seen = have[row.worst];
    place.budget_used = row.budget_used;
    worst = place;
  });
  return worst;
}

/// The first array, in order of computation, that leaves the budget in the call.
std::optional<Difference> first_difference(const Bench& bench, const CallRecord& record) {
  for (const TraceArray& array : record.output.trace) {
    if (array.name.ends_with(".router")) continue;  // of our own model alone
    if (const auto place = compare_array(bench, record, array)) return place;
  }
  return std::nullopt;
}

std::string describe(const Difference& at, const std::string& reason, bool bits) {
  std::string text = fmt::format("call {}, row {}, token {}: ", at.call, at.row, at.token);
  if (at.dimension < 0) return text + reason;
  text += fmt::format("logit {} is {:.9g}, expected {:.9g}", at.dimension, at.seen, at.expected);
  if (!reason.empty()) return text + " (" + reason + ")";
  if (bits) return text + " (the same bits were promised)";
  return text + fmt::format(" ({:.3g} times the error budget)", at.budget_used);
}

Verdict verdict_of(const Bench& bench, const Outcome& outcome) {
  Verdict verdict;
  verdict.budget_used = outcome.budget_used;
  if (outcome.worst) {
    verdict.kind = VerdictKind::differs;
    verdict.message = describe(*outcome.worst, outcome.reason, bench.bits);
    verdict.first_difference = outcome.worst;
    if (bench.judgement.traces) {
      if (const auto place = first_difference(bench, *outcome.record)) {
        verdict.first_difference = place;
      }
    }
    verdict.cause = likely_cause(bench.test_case, bench.config, *verdict.first_difference);
  } else if (outcome.compared == 0) {
    verdict.kind = VerdictKind::ill_conditioned;
    verdict.message = outcome.ill_conditioned > 0
                          ? "the experts of every token are within the noise of being others"
                          : "the case has no position to compare";
  }
  return verdict;
}

Verdict refusal(const Case& test_case, const ModelConfig& config, const SubjectInfo& info,
                const SubjectRefusal& e) {
  const int margin = needed_margin(test_case, config);
  const bool rightly = e.kind == SubjectRefusal::Kind::unsupported || margin > info.margin;
  Verdict verdict;
  verdict.kind = rightly ? VerdictKind::refused : VerdictKind::differs;
  verdict.message = rightly ? e.what() : std::string("refused a valid request: ") + e.what();
  return verdict;
}

}  // namespace

LoadedModel::~LoadedModel() {
  try {
    subject_.unload(id_);
  } catch (const std::exception&) {
    // The verdict of the case stands; a subject that cannot unload shows in its next answer.
  }
}

Output ask_score(const LoadedModel& model, const TokenHistory& history, bool trace) {
  return model.subject().score(model.id(), {history.tokens}, trace);
}

Output ask_one_shot(const LoadedModel& model, const TokenHistory& history, bool trace) {
  const int length = static_cast<int>(history.tokens.size());
  const auto session = model.subject().open(model.id(), 1, length, history.start);
  Output output = model.subject().extend(session, {history.tokens}, trace);
  model.subject().close(session);
  return output;
}

Output ask_token_by_token(const LoadedModel& model, const TokenHistory& history, bool trace) {
  const int length = static_cast<int>(history.tokens.size());
  const auto session = model.subject().open(model.id(), 1, length, history.start);
  Output all;
  for (int token : history.tokens) {
    const Output one = model.subject().extend(session, {{token}}, trace);
    all.logits.positions += one.logits.positions;
    all.logits.vocab = one.logits.vocab;
    all.logits.values.insert(all.logits.values.end(), one.logits.values.begin(),
                             one.logits.values.end());
    if (all.trace.empty()) {
      all.trace = one.trace;
      continue;
    }
    for (std::size_t i = 0; i < std::min(all.trace.size(), one.trace.size()); ++i) {
      all.trace[i].shape[0] += 1;
      all.trace[i].values.insert(all.trace[i].values.end(), one.trace[i].values.begin(),
                                 one.trace[i].values.end());
    }
  }
  model.subject().close(session);
  return all;
}

Verdict guarded(const Case& test_case, const Judgement& judgement,
                const std::function<Verdict(const ModelConfig&)>& body) {
  const SubjectInfo& info = judgement.subject.info();
  const ModelConfig config = config_of(test_case.model);
  const std::string missing = missing_for(test_case, config, info);
  if (!missing.empty()) {
    return {VerdictKind::not_applicable, "the subject lacks " + missing, std::nullopt, 0, ""};
  }
  const bool caches = std::any_of(test_case.calls.begin(), test_case.calls.end(),
                                  [](const Call& c) { return c.kind == Call::Kind::open; });
  if (config.bidirectional_all && caches) {
    return {VerdictKind::not_applicable,
            "the model has no cache: use_bidirectional_attention is \"all\"", std::nullopt, 0, ""};
  }
  try {
    return body(config);
  } catch (const SubjectRefusal& e) {
    return refusal(test_case, config, info, e);
  } catch (const SubjectUnusable&) {
    throw;  // ends the subject's run, not only this case
  } catch (const SubjectBroken& e) {
    return {VerdictKind::broken, e.what(), std::nullopt, 0, ""};
  }
}

Verdict judge_equivalence(const Case& test_case, Judgement& judgement, const Equivalence& how) {
  return guarded(test_case, judgement, [&](const ModelConfig& config) {
    const SubjectInfo& info = judgement.subject.info();
    Bench bench{test_case, judgement, config, false, 1, !config.bidirectional_all, {}};
    bench.bits = !how.against_other && info.bit_stable;
    if (!how.against_other) bench.widening = 2;
    const LoadedModel model(judgement.subject, judgement.model);
    const bool trace = judgement.traces && info.capabilities.count("trace") > 0;
    const Transcript seen =
        run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, trace);
    std::optional<LoadedModel> other;
    if (how.against_other) other.emplace(judgement.against, judgement.model);
    const LoadedModel& oracle = other ? *other : model;
    for (TokenHistory& history : longest_histories(test_case.calls, bench.causal)) {
      Output output = how.ask(oracle, history, trace);
      const int length = static_cast<int>(history.tokens.size());
      if (output.logits.positions != length || output.logits.vocab != config.vocab_size) {
        throw SubjectBroken(fmt::format("{} positions of {} logits came back for {} tokens",
                                        output.logits.positions, output.logits.vocab, length));
      }
      bench.known.push_back({std::move(history), std::move(output)});
    }
    return verdict_of(bench, compare_logits(bench, seen));
  });
}

}  // namespace kvconform
