// How much the arithmetic of a precision costs on the case at hand (numerics.md, "Error budgets").
//
// The double reference gives the truth; the reference run a few times on numbers whose every
// operation is off by a random relative error of at most u shows how far honest arithmetic in that
// precision strays from it. The budget of a row is a multiple of that spread plus a rounding floor.
// The multiple is measured, not chosen: README.md has the data and the command.
//
// Choices are discontinuous: which experts a token takes, which of its gates survive a sparsity,
// the sign of a nearly vanishing vector before a norm. Where noise could turn one, the row does not
// decide and is ill-conditioned: experts are looked at directly, everything else shows as rows that
// answer to louder noise with far more than their share. Few probes can miss a rare turn. So before
// a row is called different, many more look for one: what honest arithmetic may do is no fault.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "properties/history.h"
#include "reference/checkpoint.h"
#include "reference/trace.h"

namespace kvconform {

/// Budgets of one history, an entry a position.
struct Assessment {
  TokenHistory history;
  Logits truth;
  std::vector<double> spread;         ///< of the logits, largest over probes and vocabulary
  std::vector<double> budget;         ///< for |subject − truth| of each logit
  std::vector<bool> ill_conditioned;  ///< routing within the noise here or before
  bool close = false;                 ///< after the closer look
  /// Budgets of the trace arrays by name, where traces were asked for.
  std::map<std::string, std::vector<double>> trace_budget;
};

class Yardstick {
 public:
  /// `dtype` as subjects give it: float64, float32, bfloat16, float16.
  Yardstick(std::shared_ptr<const Checkpoint> checkpoint, std::string dtype);

  /// Computed once for a history and everything that begins it: ask for the longest ones first.
  const Assessment& assess(const TokenHistory& history, bool traces);

  /// The same after a closer look, for a row that would otherwise be called different. Rows in
  /// which any of many probes, with a quarter of the loud ones' noise, leaves the budget are
  /// ill-conditioned too. Arithmetic that answers in proportion stays far below: 4 of 16 times the
  /// spread, 2 of 8.
  const Assessment& assess_closely(const TokenHistory& history);

  /// budget = multiple · spread + kFloor · u · (largest |logit| of the row). Measured: README.md.
  static constexpr double kMultiple = 8;  ///< float64, float32
  static constexpr double kStoredMultiple =
      16;  ///< bfloat16, float16: sums in float32, stored narrow
  static constexpr double kFloor = 4;
  static constexpr int kProbes = 4;
  /// Loud probes have `multiple` times the noise. Where they stray more than kNonlinear times
  /// further than that explains, a choice lies within the budget: the row is ill-conditioned.
  static constexpr int kLoudProbes = 3;
  static constexpr double kNonlinear = 2;
  static constexpr int kCloseProbes = 32;
  /// So is a row whose budget is more than this share of its largest logit: it would pass anything.
  static constexpr double kVague = 0.5;

  double multiple() const;
  double unit() const;  ///< unit roundoff of the precision

 private:
  Assessment& covering(const TokenHistory& history, bool traces);
  Assessment measure(const TokenHistory& history, bool traces) const;
  Output probe(const TokenHistory& history, int seed, double loudness, bool traces) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::string dtype_;
  std::vector<std::unique_ptr<Assessment>> done_;
};

}  // namespace kvconform
