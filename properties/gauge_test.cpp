// The quick answer is never more generous than the budget, and the budget decides what it does not.
#include "properties/gauge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/generators/draw.h"
#include "properties/property.h"

namespace kvconform {
namespace {

struct Bench {
  Case test_case;
  std::unique_ptr<ModelSource> source;
  TokenHistory history;

  explicit Bench(int index) {
    test_case = all_properties().front()->generate(5, index, CaseSize::smoke);
    source = make_model_source(test_case.model);
    history = longest_histories(test_case.calls).front();
  }
};

std::vector<double> moved(std::span<const double> row, double by) {
  std::vector<double> other(row.begin(), row.end());
  other[other.size() / 2] += by;
  return other;
}

TEST(Gauge, WhatIsSurelyWithinIsWithinTheBudget) {
  int asked = 0;
  for (int index = 0; index < 12; ++index) {
    Bench bench(index);
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      Gauge gauge(*bench.source, dtype);
      const int token = static_cast<int>(bench.history.tokens.size()) - 1;
      const auto truth = gauge.truth(bench.history, token);
      const auto budget = gauge.budget(bench.history, token);
      if (!budget) continue;
      ++asked;
      // The plain error of these rows is far below a budget (README.md), so twice a budget never
      // is.
      EXPECT_FALSE(gauge.surely_within(bench.history, token, truth, moved(truth, 2 * *budget), 1));
      EXPECT_TRUE(gauge.surely_within(bench.history, token, truth, moved(truth, 0), 1));
    }
  }
  EXPECT_GT(asked, 15);
}

TEST(Gauge, ADifferenceBeyondThePlainErrorIsDecidedByTheBudget) {
  for (int index = 0; index < 12; ++index) {
    Bench bench(index);
    Gauge gauge(*bench.source, "float32");
    const int token = static_cast<int>(bench.history.tokens.size()) - 1;
    const auto truth = gauge.truth(bench.history, token);
    const auto budget = gauge.budget(bench.history, token);
    if (!budget) continue;
    const auto near = gauge.compare(bench.history, token, truth, moved(truth, 0.99 * *budget), 1);
    const auto far = gauge.compare(bench.history, token, truth, moved(truth, 1.01 * *budget), 1);
    EXPECT_TRUE(near && near->within);
    EXPECT_TRUE(far && !far->within);
    const auto wide = gauge.compare(bench.history, token, truth, moved(truth, 1.01 * *budget), 2);
    EXPECT_TRUE(wide && wide->within);
  }
}

TEST(Gauge, NotANumberIsNeverWithin) {
  Bench bench(1);
  Gauge gauge(*bench.source, "float32");
  const auto truth = gauge.truth(bench.history, 0);
  EXPECT_FALSE(gauge.surely_within(bench.history, 0, truth, moved(truth, std::nan("")), 1));
  EXPECT_FALSE(gauge.surely_within(bench.history, 0, truth, moved(truth, HUGE_VAL), 1));
}

}  // namespace
}  // namespace kvconform
