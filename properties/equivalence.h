// The base of every property of the form "these positions must come out as if …": the calls of a
// case are run on the subject, and each new position is held against what an oracle says of its
// tokens alone.
//
//   return judge_equivalence(test_case, judgement, {.ask = ask_score});
//
// Within a subject that promises it, equality is that of bits; else it is within the error budget.
#pragma once

#include <functional>

#include "properties/history.h"
#include "properties/property.h"
#include "properties/two_ways.h"

namespace kvconform {

/// A model loaded into a subject for as long as this lives.
class LoadedModel {
 public:
  LoadedModel(Subject& subject, const ModelSource& source)
      : subject_(subject), source_(source), id_(subject.load(source)) {}
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Subject& subject() const { return subject_; }
  const ModelSource& source() const { return source_; }
  Subject::ModelId id() const { return id_; }

 private:
  Subject& subject_;
  const ModelSource& source_;
  Subject::ModelId id_;
};

/// Puts the positions of `more`, traces included, behind those of `all`.
void append(Output& all, const Output& more);

/// What a model gives for the tokens of one row alone, every position.
using Ask = std::function<Output(const LoadedModel&, const TokenHistory&, bool trace)>;

Output ask_score(const LoadedModel& model, const TokenHistory& history, bool trace);
Output ask_one_shot(const LoadedModel& model, const TokenHistory& history, bool trace);
Output ask_token_by_token(const LoadedModel& model, const TokenHistory& history, bool trace);

/// The row alone in a session of its own, in the chunks in which its tokens came, never having
/// taken those that were dropped: what batches, copies, rewinds and files must not change.
Output ask_same_chunks(const LoadedModel& model, const TokenHistory& history, bool trace);
/// The same, in a model loaded for nothing else.
Output ask_same_chunks_on_fresh_load(const LoadedModel& model, const TokenHistory& history,
                                     bool trace);

struct Equivalence {
  Ask ask;
  /// Chunks::same: an answer holds for rows whose tokens came in the same calls, and no others. For
  /// oracles that feed a row as it was fed: else one row is blamed for the chunks of another.
  Chunks chunks = Chunks::any;
  /// Hold the subject against `judgement.against` by budget, instead of against itself.
  bool against_other = false;
  /// What happens between oracle and calls; without it the oracle is asked last.
  std::function<void()> between = {};
  WayNames names = {};  ///< for a failure's report
  /// Told which of the two ways is right, where a failure is looked at closely.
  std::function<void(RightWay, Verdict&)> explain = {};
};

Verdict judge_equivalence(const Case& test_case, Judgement& judgement, const Equivalence& how);

/// Traces are asked for, and the subject has them.
bool wants_traces(const Judgement& judgement);

/// Runs `body` and turns what a subject can do to it (refuse, break, lack a capability) into
/// verdicts.
Verdict guarded(const Case& test_case, const Judgement& judgement,
                const std::function<Verdict(const ModelConfig&)>& body);

}  // namespace kvconform
