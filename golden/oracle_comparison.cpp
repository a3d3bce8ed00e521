// Comparisons that no NaN and no shape slips through.
#include "golden/oracle_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvconform {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::span<const double> row_of(const std::vector<double>& values, int row, int width) {
  return std::span(values).subspan(std::size_t(row) * width, width);
}

double worst_row(const Logits& logits, const std::vector<double>& expected) {
  double worst = 0.0;
  for (int t = 0; t < logits.positions; ++t) {
    worst = std::max(worst, relative_difference(row_of(logits.values, t, logits.vocab),
                                                row_of(expected, t, logits.vocab)));
  }
  return worst;
}

bool is_traced_array(const std::string& name) {
  return name != "input_ids" && name != "logits_f64" && name != "chunked_logits";
}

}  // namespace

double largest_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) return infinite;
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (std::isnan(d)) return infinite;  // std::max would lose it; so is ∞ − ∞
    most = std::max(most, d);
  }
  return most;
}

double relative_difference(std::span<const double> values, std::span<const double> expected) {
  const double difference = largest_difference(values, expected);
  double magnitude = 0.0;
  for (double x : expected) magnitude = std::max(magnitude, std::abs(x));
  if (difference == 0.0) return 0.0;  // also 0/0
  return magnitude > 0.0 ? difference / magnitude : infinite;
}

double worst_row(const Logits& logits, const ExpectedArray& expected) {
  const std::vector<std::int64_t> shape{logits.positions, logits.vocab};
  return expected.shape == shape ? worst_row(logits, expected.values) : infinite;
}

double worst_row(const Logits& logits, const Logits& expected) {
  const bool same = logits.positions == expected.positions && logits.vocab == expected.vocab;
  return same ? worst_row(logits, expected.values) : infinite;
}

TraceComparison compare_trace(const Trace& trace, const OracleCase& oracle) {
  TraceComparison result;
  const std::string prefix = std::to_string(oracle.traced_prompt) + ".";
  for (const auto& [key, expected] : oracle.expected) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size());
    if (!is_traced_array(name)) continue;
    const auto found = std::find_if(trace.begin(), trace.end(),
                                    [&](const TraceArray& array) { return array.name == name; });
    if (found == trace.end()) {
      result.missing.push_back(name);
      continue;
    }
    const double error = found->shape == expected.shape
                             ? relative_difference(found->values, expected.values)
                             : infinite;
    if (error > result.worst) result.worst = error, result.where = name;
  }
  return result;
}

}  // namespace kvconform
