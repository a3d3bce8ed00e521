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

namespace kvconform {

/// A model loaded into a subject for as long as this lives.
class LoadedModel {
 public:
  LoadedModel(Subject& subject, const ModelSource& source)
      : subject_(subject), id_(subject.load(source)) {}
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Subject& subject() const { return subject_; }
  Subject::ModelId id() const { return id_; }

 private:
  Subject& subject_;
  Subject::ModelId id_;
};

/// What a model gives for the tokens of one row alone, every position.
using Ask = std::function<Output(const LoadedModel&, const TokenHistory&, bool trace)>;

Output ask_score(const LoadedModel& model, const TokenHistory& history, bool trace);
Output ask_one_shot(const LoadedModel& model, const TokenHistory& history, bool trace);
Output ask_token_by_token(const LoadedModel& model, const TokenHistory& history, bool trace);

struct Equivalence {
  Ask ask;
  /// Hold the subject against `judgement.against` by budget, instead of against itself.
  bool against_other = false;
};

Verdict judge_equivalence(const Case& test_case, Judgement& judgement, const Equivalence& how);

/// Runs `body` and turns what a subject can do to it (refuse, break, lack a capability) into
/// verdicts.
Verdict guarded(const Case& test_case, const Judgement& judgement,
                const std::function<Verdict(const ModelConfig&)>& body);

}  // namespace kvconform
