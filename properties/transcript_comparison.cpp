// Judging a transcript position by position.
#include "properties/transcript_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/budget_words.h"
#include "properties/causes.h"
#include "properties/yardstick.h"

namespace kvconform {
namespace {

/// The worst position of all logits, if one is outside.
struct Outcome {
  double budget_used = 0;
  int compared = 0, ill_conditioned = 0;
  std::optional<Difference> worst;
  const CallRecord* record = nullptr;  ///< the first call with a position outside
  std::string reason;
};

/// The budget of a position; nothing where the case does not decide it.
std::optional<double> budget_at(const TranscriptComparison& how, const Expected& expected,
                                int token) {
  if (how.bits) return 0;
  const Assessment& assessment = how.judgement.yardstick.assess(*expected.history, false);
  if (assessment.ill_conditioned[token]) return std::nullopt;
  return assessment.budget[token];
}

/// Does the row decide, at a closer look? Asked before it is called different.
bool decides(const TranscriptComparison& how, const Expected& expected, int token) {
  if (how.bits) return true;
  return !how.judgement.yardstick.assess_closely(*expected.history).ill_conditioned[token];
}

/// The same bits, or no further apart than the plain reference errs.
bool surely_within(const TranscriptComparison& how, const Expected& expected, const At& at,
                   std::span<const double> want, std::span<const double> have) {
  if (compare_bits(want, have).within) return true;
  if (how.bits || how.gauge == nullptr) return false;
  return how.gauge->surely_within(*expected.history, at.token, want, have, how.widening);
}

Outcome compare_logits(const TranscriptComparison& how, const Transcript& seen) {
  Outcome outcome;
  for_each_position(seen, [&](const At& at) {
    const std::optional<Expected> expected = how.expected(at);
    if (!expected) return;
    const auto want = logits_row(expected->output->logits, expected->position);
    const auto have = at.logits();
    if (surely_within(how, *expected, at, want, have)) {  // no need to measure a budget
      ++outcome.compared;
      return;
    }
    const std::optional<double> budget = budget_at(how, *expected, at.token);
    if (!budget) {
      ++outcome.ill_conditioned;
      return;
    }
    const RowComparison row = how.compare(want, have, *budget);
    if (!row.within && !decides(how, *expected, at.token)) {
      ++outcome.ill_conditioned;
      return;
    }
    ++outcome.compared;
    outcome.budget_used = std::max(outcome.budget_used, row.budget_used);
    if (row.within) return;
    if (outcome.record == nullptr) outcome.record = &at.record;
    if (outcome.worst && !(row.budget_used > outcome.worst->budget_used)) return;
    outcome.worst = worst_at(at, row, want);
    outcome.reason = row.reason;
  });
  return outcome;
}

/// The worst row of one trace array over the positions of a call, if one is outside.
std::optional<Difference> compare_array(const TranscriptComparison& how, const CallRecord& record,
                                        const TraceArray& array) {
  std::optional<Difference> worst;
  for_each_position({record}, [&](const At& at) {
    const std::optional<Expected> expected = how.expected(at);
    if (!expected) return;
    const TraceArray* expected_array = find_array(expected->output->trace, array.name);
    if (expected_array == nullptr) return;
    double budget = 0;
    if (!how.bits) {
      const auto& budgets = how.judgement.yardstick.assess(*expected->history, true).trace_budget;
      const auto found = budgets.find(array.name);
      if (found == budgets.end()) return;
      budget = found->second[at.token];
    }
    const auto want = trace_row(*expected_array, expected->position);
    const auto have = trace_row(array, at.index);
    const RowComparison row = how.compare(want, have, budget);
    if (row.within || (worst && !(row.budget_used > worst->budget_used))) return;
    Difference place = decode(array, std::max(0, row.worst), how.config.hidden_size);
    place.call = record.call;
    place.row = at.span.row;
    place.token = at.token;
    if (row.worst >= 0) place.expected = want[row.worst], place.seen = have[row.worst];
    place.budget_used = row.budget_used;
    worst = place;
  });
  return worst;
}

/// The first array, in order of computation, that leaves the budget in the call.
std::optional<Difference> first_difference(const TranscriptComparison& how,
                                           const CallRecord& record) {
  for (const TraceArray& array : record.output.trace) {
    if (array.name.ends_with(".router")) continue;  // of our own model alone
    if (const auto place = compare_array(how, record, array)) return place;
  }
  return std::nullopt;
}

double relative_deviation(std::span<const double> want, std::span<const double> have) {
  double largest = 0, deviation = 0;
  for (std::size_t i = 0; i < std::min(want.size(), have.size()); ++i) {
    const double off = std::abs(want[i] - have[i]);
    if (!(off <= deviation)) deviation = off;  // NaN stays
    if (std::isnan(off)) return off;
    largest = std::max(largest, std::abs(want[i]));
  }
  return deviation == 0 ? 0 : deviation / std::max(largest, deviation);
}

std::string array_title(const TraceArray& array, int hidden_size) {
  const Difference place = decode(array, 0, hidden_size);
  return place.layer < 0 ? place.part : fmt::format("layer {} {}", place.layer, place.part);
}

/// Every traced array of the call in which the first difference was found, for the row it is in.
DeviationMap deviations_of(const TranscriptComparison& how, const CallRecord& record, int row) {
  constexpr std::size_t kMostArrays = 96, kMostTokens = 96;  // a page must stay readable
  DeviationMap map;
  map.row = row;
  map.call = record.call;
  map.first_token = -1;
  for (const TraceArray& array : record.output.trace) {
    if (array.name.ends_with(".router") || map.arrays.size() == kMostArrays) continue;
    std::vector<double> deviation;
    for_each_position({record}, [&](const At& at) {
      const std::optional<Expected> expected = how.expected(at);
      if (at.span.row != row || !expected || deviation.size() == kMostTokens) return;
      const TraceArray* wanted = find_array(expected->output->trace, array.name);
      if (wanted == nullptr) return;
      if (map.first_token < 0) map.first_token = at.token;
      deviation.push_back(
          relative_deviation(trace_row(*wanted, expected->position), trace_row(array, at.index)));
    });
    if (deviation.empty()) continue;
    map.arrays.push_back(array_title(array, how.config.hidden_size));
    map.deviation.push_back(std::move(deviation));
  }
  return map;
}

std::string describe(const Difference& at, const std::string& reason, bool bits) {
  std::string text = fmt::format("call {}, row {}, token {}: ", at.call, at.row, at.token);
  if (at.dimension < 0) return text + reason;
  text += fmt::format("logit {} is {:.9g}, expected {:.9g}", at.dimension, at.seen, at.expected);
  if (!reason.empty()) return text + " (" + reason + ")";
  if (bits) return text + " (the same bits were promised)";
  return text + fmt::format(" ({} the error budget)", times_of_budget(at.budget_used));
}

}  // namespace

void OracleAnswers::add(TokenHistory history, Output output) {
  known_.push_back({std::move(history), std::move(output)});
}

std::optional<Expected> OracleAnswers::find(const At& at) const {
  const TokenHistory& history = at.span.history;
  for (const Known& k : known_) {
    if (covers(k.history, history, causal_, chunks_)) {
      return Expected{&k.output, at.token, &k.history};
    }
  }
  return std::nullopt;
}

Transcript OracleAnswers::transcript() const {
  Transcript all;
  for (const Known& k : known_) all.push_back({0, {{0, k.history, 0}}, k.output});
  return all;
}

SamePlace::SamePlace(const Transcript& other, const std::vector<Call>& calls, bool causal)
    : other_(other), causal_(causal), longest_(longest_histories(calls, causal)) {}

std::optional<Expected> SamePlace::find(const At& at) const {
  const auto record = std::find_if(other_.begin(), other_.end(),
                                   [&](const CallRecord& r) { return r.call == at.record.call; });
  if (record == other_.end()) return std::nullopt;
  // Of the other run: its tokens further on may not be these.
  const TokenHistory& history = record->rows[&at.span - at.record.rows.data()].history;
  const auto longest = std::find_if(longest_.begin(), longest_.end(), [&](const TokenHistory& h) {
    return covers(h, history, causal_, Chunks::any);
  });
  if (longest == longest_.end()) return std::nullopt;
  return Expected{&record->output, at.index, &*longest};
}

Difference worst_at(const At& at, const RowComparison& row, std::span<const double> expected) {
  Difference place = worst_of(row, expected, at.logits());
  place.call = at.record.call;
  place.row = at.span.row;
  place.token = at.token;
  return place;
}

void for_each_position(const Transcript& transcript, const std::function<void(const At&)>& visit) {
  for (const CallRecord& record : transcript) {
    int index = 0;
    for (const RowSpan& span : record.rows) {
      const int end = static_cast<int>(span.history.tokens.size());
      for (int token = span.first; token < end; ++token) visit({record, span, index++, token});
    }
  }
}

Verdict TranscriptComparison::judge(const Transcript& seen) const {
  const Outcome outcome = compare_logits(*this, seen);
  Verdict verdict;
  verdict.budget_used = outcome.budget_used;
  if (outcome.worst) {
    verdict.kind = VerdictKind::differs;
    verdict.message = describe(*outcome.worst, outcome.reason, bits);
    verdict.first_difference = outcome.worst;
    if (judgement.traces) {
      if (const auto place = first_difference(*this, *outcome.record)) {
        verdict.first_difference = place;
        verdict.deviations = deviations_of(*this, *outcome.record, place->row);
      }
    }
    verdict.cause = likely_cause(test_case, config, *verdict.first_difference);
  } else if (outcome.compared == 0) {
    verdict.kind = VerdictKind::ill_conditioned;
    verdict.message = outcome.ill_conditioned > 0
                          ? "the experts of every token are within the noise of being others"
                          : "the case has no position to compare";
  }
  return verdict;
}

TranscriptComparison comparison_within(const Case& test_case, Judgement& judgement,
                                       const ModelConfig& config, Expectation expected) {
  const bool bits = judgement.subject.info().bit_stable;
  return {test_case, judgement, config, bits, 2, std::move(expected)};
}

}  // namespace kvconform
