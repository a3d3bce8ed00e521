// The quick answer, and the probe behind it.
#include "properties/gauge.h"

#include <algorithm>
#include <cmath>

#include "properties/equivalence.h"
#include "properties/subject_registry.h"
#include "reference/numerics.h"

namespace kvconform {
namespace {

std::string plain_subject(const std::string& dtype) {
  if (dtype == "bfloat16" || dtype == "float16") return "reference:" + dtype;
  return dtype == "float64" ? "reference:double" : "reference";
}

Logits ask(const std::string& subject_name, const ModelSource& source,
           const TokenHistory& history) {
  const auto subject = make_subject(subject_name);
  const LoadedModel model(*subject, source);
  if (history.start == 0) return ask_score(model, history, false).logits;
  return ask_one_shot(model, history, false).logits;  // only a session can start late
}

/// NaN where a number is not finite: no comparison with it holds.
double largest_error(std::span<const double> a, std::span<const double> b) {
  const RowComparison row = compare_within(a, b, HUGE_VAL);
  return row.within ? row.error : std::nan("");
}

double largest_of(std::span<const double> row) {
  double largest = 0;
  for (double value : row) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace

struct Gauge::Known {
  TokenHistory history;
  Logits truth, plain;
};

Gauge::Gauge(const ModelSource& model, const std::string& dtype, Yardstick* yardstick)
    : model_(model), dtype_(dtype), yardstick_(yardstick) {}

Gauge::~Gauge() = default;

bool Gauge::covers(const TokenHistory& longer, const TokenHistory& history) const {
  const bool causal = !model_.checkpoint()->config().bidirectional_all;
  return causal ? history.is_prefix_of(longer) : history == longer;
}

TokenHistory Gauge::longest_covering(const TokenHistory& history) const {
  for (const TokenHistory& longer : longest_) {
    if (covers(longer, history)) return longer;
  }
  return history;
}

const Gauge::Known& Gauge::known(const TokenHistory& history) {
  for (const auto& entry : known_) {
    if (covers(entry->history, history)) return *entry;
  }
  const TokenHistory longest = longest_covering(history);
  Logits truth = ask("reference:double", model_, longest);
  Logits plain = dtype_ == "float64" ? truth : ask(plain_subject(dtype_), model_, longest);
  known_.push_back(std::make_unique<Known>(Known{longest, std::move(truth), std::move(plain)}));
  return *known_.back();
}

Yardstick& Gauge::yardstick() {
  if (yardstick_ != nullptr) return *yardstick_;
  own_ = std::make_unique<Yardstick>(model_.checkpoint(), dtype_);
  yardstick_ = own_.get();
  return *yardstick_;
}

std::span<const double> Gauge::truth(const TokenHistory& history, int token) {
  return logits_row(known(history).truth, token);
}

bool Gauge::surely_within(const TokenHistory& history, int token, std::span<const double> want,
                          std::span<const double> have, double widening) {
  const double error = largest_error(want, have);
  if (error == 0) return true;
  const Known& k = known(history);
  const auto true_row = logits_row(k.truth, token);
  const double unit = unit_roundoff(dtype_) > 0 ? unit_roundoff(dtype_) : unit_roundoff("float32");
  const double floor = Yardstick::kFloor * unit * largest_of(true_row);
  const double plain = largest_error(true_row, logits_row(k.plain, token));
  return error <= widening * std::max(floor, plain);
}

std::optional<double> Gauge::budget(const TokenHistory& history, int token) {
  const Assessment& assessment = yardstick().assess(longest_covering(history), false);
  if (assessment.ill_conditioned[token]) return std::nullopt;
  return assessment.budget[token];
}

std::optional<RowComparison> Gauge::compare(const TokenHistory& history, int token,
                                            std::span<const double> want,
                                            std::span<const double> have, double widening) {
  if (surely_within(history, token, want, have, widening)) {
    RowComparison quick = compare_within(want, have, HUGE_VAL);
    quick.budget_used = 0;
    return quick;
  }
  const std::optional<double> allowed = budget(history, token);
  if (!allowed) return std::nullopt;
  const RowComparison row = compare_within(want, have, widening * *allowed);
  if (row.within) return row;
  const Assessment& close = yardstick().assess_closely(longest_covering(history));
  if (close.ill_conditioned[token]) return std::nullopt;
  return row;
}

}  // namespace kvconform
