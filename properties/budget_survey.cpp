// Where the multiple of the error budget comes from: healthy generated cases, their errors against
// the double reference and the spread of the noise probe, as quantiles of (error − rounding floor)
// / spread. Prints one line a precision, with the rows beyond their budget at first and after the
// closer look, and how many rows of the first 200 cases keep their verdict at that look.
//
//   build/properties/budget_survey [cases] [seed]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "properties/case_judge.h"
#include "properties/equivalence.h"
#include "properties/shrinking.h"
#include "properties/subject_registry.h"
#include "properties/yardstick.h"
#include "reference/numerics.h"

namespace kvconform {
namespace {

struct Survey {
  std::vector<double> ratios;  ///< a row each
  std::int64_t ill_conditioned = 0;
  std::int64_t beyond = 0, beyond_closely = 0;  ///< their budgets
  std::int64_t looked_at = 0, still_judged = 0;
  double worst = 0;
  std::uint64_t worst_case = 0;
};

double largest(const double* row, const double* truth, int count, bool difference) {
  double most = 0;
  for (int i = 0; i < count; ++i) {
    most = std::max(most, difference ? std::abs(row[i] - truth[i]) : std::abs(truth[i]));
  }
  return most;
}

void add_case(Subject& subject, const Case& test_case, double unit, Survey& survey) {
  const auto source = make_model_source(test_case.model);
  Yardstick yardstick(source->checkpoint(), subject.info().dtype);
  const LoadedModel model(subject, *source);
  for (const TokenHistory& history : longest_histories(test_case.calls)) {
    const Output seen = ask_score(model, history, false);
    const Assessment& noise = yardstick.assess(history, false);
    const std::vector<bool> at_first = noise.ill_conditioned;  // the closer look adds to it
    for (int p = 0; p < seen.logits.positions; ++p) {
      if (at_first[p]) {
        ++survey.ill_conditioned;
        continue;
      }
      const double* truth = noise.truth.row(p);
      const double error = largest(seen.logits.row(p), truth, seen.logits.vocab, true);
      const double floor =
          Yardstick::kFloor * unit * largest(truth, truth, seen.logits.vocab, false);
      const double ratio = std::max(0.0, error - floor) / noise.spread[p];
      survey.ratios.push_back(ratio);
      if (ratio > survey.worst) survey.worst = ratio, survey.worst_case = test_case.index;
      if (error <= noise.budget[p]) continue;
      ++survey.beyond;
      survey.beyond_closely += !yardstick.assess_closely(history).ill_conditioned[p];
    }
  }
}

/// Rows that the first look judges, and those of them that the closer look judges too.
void look_closely(const std::string& dtype, const Case& test_case, Survey& survey) {
  const auto source = make_model_source(test_case.model);
  Yardstick yardstick(source->checkpoint(), dtype);
  for (const TokenHistory& history : longest_histories(test_case.calls)) {
    const std::vector<bool> before = yardstick.assess(history, false).ill_conditioned;
    const Assessment& closely = yardstick.assess_closely(history);
    for (std::size_t p = 0; p < before.size(); ++p) {
      survey.looked_at += !before[p];
      survey.still_judged += !closely.ill_conditioned[p];
    }
  }
}

void survey_subject(const char* name, std::int64_t cases, std::uint64_t seed) {
  const auto subject = make_subject(name);
  const Property& property = find_property("agreement");
  Survey survey;
  for (std::int64_t i = 0; i < cases; ++i) {
    const CaseSize size = i % 4 == 0 ? CaseSize::standard : CaseSize::smoke;
    const Case test_case = property.generate(seed, static_cast<std::uint64_t>(i), size);
    add_case(*subject, test_case, unit_roundoff(subject->info().dtype), survey);
    if (i < 200) look_closely(subject->info().dtype, test_case, survey);
  }
  std::sort(survey.ratios.begin(), survey.ratios.end());
  const auto quantile = [&](double q) {
    return survey.ratios[static_cast<std::size_t>(q * double(survey.ratios.size() - 1))];
  };
  fmt::print(
      "{:<20} cases {} rows {} ill-conditioned {}: 50% {:.2f}, 99% {:.2f}, 99.9% {:.2f}, "
      "99.99% {:.2f}, largest {:.2f} (case {}); beyond the budget {}, after the closer look {}; it "
      "judges {} of {} rows\n",
      name, cases, survey.ratios.size(), survey.ill_conditioned, quantile(0.5), quantile(0.99),
      quantile(0.999), quantile(0.9999), survey.worst, survey.worst_case, survey.beyond,
      survey.beyond_closely, survey.still_judged, survey.looked_at);
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  const std::int64_t cases = argc > 1 ? std::atoll(argv[1]) : 2000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  for (const char* name : {"reference", "reference:bfloat16", "reference:float16"}) {
    kvconform::survey_subject(name, std::max<std::int64_t>(1, cases), seed);
  }
}
