// A yardstick with a quick answer for most rows. The noise probe runs the model seven times on slow
// numbers; the plain reference of the subject's precision runs once on fast ones, and its own error
// stays within the budget but for rows that the probe would not judge at a closer look (README.md,
// "Budgets"). So what is no further off than that error is fine, and only what is further off asks
// the probe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/comparison.h"
#include "properties/yardstick.h"

namespace kvconform {

class Gauge {
 public:
  /// `yardstick`: one for the same model, where there is one already.
  Gauge(const ModelSource& model, const std::string& dtype, Yardstick* yardstick = nullptr);
  ~Gauge();
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;

  /// Histories that will be asked for, so that what begins them is not computed once more.
  void prepare(std::vector<TokenHistory> longest) { longest_ = std::move(longest); }

  /// The logits of a position in double precision.
  std::span<const double> truth(const TokenHistory& history, int token);

  /// Are the rows within `widening` budgets of each other for certain, without the probe?
  bool surely_within(const TokenHistory& history, int token, std::span<const double> want,
                     std::span<const double> have, double widening);

  /// The budget of a position; nothing where the case does not decide it.
  std::optional<double> budget(const TokenHistory& history, int token);

  /// Within `widening` budgets? Nothing where the case does not decide it.
  std::optional<RowComparison> compare(const TokenHistory& history, int token,
                                       std::span<const double> want, std::span<const double> have,
                                       double widening);

 private:
  struct Known;
  TokenHistory longest_covering(const TokenHistory& history) const;
  const Known& known(const TokenHistory& history);
  Yardstick& yardstick();
  bool covers(const TokenHistory& longer, const TokenHistory& history) const;

  const ModelSource& model_;
  std::string dtype_;
  Yardstick* yardstick_;
  std::unique_ptr<Yardstick> own_;
  std::vector<TokenHistory> longest_;
  std::vector<std::unique_ptr<Known>> known_;
};

}  // namespace kvconform
