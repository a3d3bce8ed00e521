// Holding a transcript, position by position, against what each position should have been: the
// worst one decides, and where traces were recorded the first array that parts names the place.
//
//   OracleAnswers known(causal);
//   known.add(history, output);            // what these tokens alone give
//   TranscriptComparison comparison{test_case, judgement, config, bits, widening,
//                                   [&](const At& at) { return known.find(at); }};
//   return comparison.judge(transcript);
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "properties/comparison.h"
#include "properties/gauge.h"
#include "properties/history.h"
#include "properties/property.h"

namespace kvconform {

/// One new position of a transcript.
struct At {
  const CallRecord& record;
  const RowSpan& span;
  int index = 0;  ///< in the output of the call
  int token = 0;  ///< in the row

  std::span<const double> logits() const { return logits_row(record.output.logits, index); }
};

/// The worst logit of a comparison made there, with what was expected.
Difference worst_at(const At& at, const RowComparison& row, std::span<const double> expected);

/// What should have come out there: a position of another output, and the tokens whose budget
/// holds.
struct Expected {
  const Output* output = nullptr;
  int position = 0;
  const TokenHistory* history = nullptr;
};

/// Nothing where nobody can say: the position is then not compared.
using Expectation = std::function<std::optional<Expected>(const At&)>;

/// What an oracle said of whole histories. Addresses stay valid while this lives and is not added
/// to.
class OracleAnswers {
 public:
  explicit OracleAnswers(bool causal, Chunks chunks = Chunks::any)
      : causal_(causal), chunks_(chunks) {}
  void add(TokenHistory history, Output output);
  std::optional<Expected> find(const At& at) const;
  Transcript transcript() const;  ///< as if each history had been one call of one row

 private:
  struct Known {
    TokenHistory history;
    Output output;
  };
  bool causal_;
  Chunks chunks_;
  std::vector<Known> known_;
};

/// The same place in another transcript of the same calls.
class SamePlace {
 public:
  SamePlace(const Transcript& other, const std::vector<Call>& calls, bool causal);
  std::optional<Expected> find(const At& at) const;

 private:
  const Transcript& other_;
  bool causal_;
  std::vector<TokenHistory> longest_;  ///< one assessment of these covers all the others
};

/// Visits every new position of every call.
void for_each_position(const Transcript& transcript, const std::function<void(const At&)>& visit);

struct TranscriptComparison {
  const Case& test_case;
  Judgement& judgement;
  const ModelConfig& config;
  bool bits = false;  ///< bit equality; else budgets
  double widening =
      1;  ///< of the budget: two computations in the precision differ by twice as much
  Expectation expected;
  Gauge* gauge = nullptr;  ///< spares the noise probe where it can

  Verdict judge(const Transcript& seen) const;

  RowComparison compare(std::span<const double> want, std::span<const double> have,
                        double budget) const {
    return bits ? compare_bits(want, have) : compare_within(want, have, widening * budget);
  }
};

/// Within a subject: bits where it promises them, else twice the budget.
TranscriptComparison comparison_within(const Case& test_case, Judgement& judgement,
                                       const ModelConfig& config, Expectation expected);

}  // namespace kvconform
