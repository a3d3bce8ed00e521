// Probing the reference with noise.
#include "properties/yardstick.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "properties/comparison.h"
#include "reference/model.h"

namespace kvconform {
namespace {

template <class N>
Output run(const Model<N>& model, const TokenHistory& history, bool trace) {
  Output output;
  Trace* arrays = trace ? &output.trace : nullptr;
  if (history.start == 0) {
    output.logits = to_logits(model.score({history.tokens}, arrays));
    return output;
  }
  CacheShape shape;  // only a session can start late
  shape.capacity = static_cast<int>(history.tokens.size());
  shape.start = history.start;
  auto cache = model.open(shape);
  output.logits = to_logits(model.extend(cache, {history.tokens}, arrays));
  return output;
}

double largest_magnitude(std::span<const double> row) {
  double largest = 0;
  for (double value : row) largest = std::max(largest, std::abs(value));
  return largest;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN sticks
  }
  return largest;
}

std::span<const double> logits_row(const Logits& logits, int position) {
  return {logits.row(position), static_cast<std::size_t>(logits.vocab)};
}

std::vector<int> ranking(std::span<const double> probabilities) {
  std::vector<int> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return probabilities[a] > probabilities[b]; });
  return order;
}

/// Is the k-th expert of a token nearer to the next one than noise can move them?
bool routing_within_noise(std::span<const double> truth, const std::vector<Output>& probes,
                          const std::string& array, int position, int k, double unit) {
  if (k >= static_cast<int>(truth.size())) return false;
  double noise = unit;
  for (const Output& probe : probes) {
    const std::span<const double> row = trace_row(*find_array(probe.trace, array), position);
    noise = std::max(noise, largest_difference(truth, row));
  }
  const std::vector<int> order = ranking(truth);
  const double gap = truth[order[k - 1]] - truth[order[k]];
  return !(gap > 2 * Yardstick::kMultiple * noise);
}

/// The largest deviation of any probe from the truth, for one row of numbers.
template <class RowOf>
double spread_of(std::span<const double> truth, const std::vector<Output>& probes, RowOf row_of) {
  double spread = 0;
  for (const Output& probe : probes) {
    const double difference = largest_difference(truth, row_of(probe));
    if (!(difference <= spread)) spread = difference;
  }
  return spread;
}

double budget_of(std::span<const double> truth, double spread, double unit) {
  return Yardstick::kMultiple * spread + Yardstick::kFloor * unit * largest_magnitude(truth);
}

void assess_logits(const Output& truth, const std::vector<Output>& probes, double unit,
                   Assessment& result) {
  for (int p = 0; p < truth.logits.positions; ++p) {
    const std::span<const double> row = logits_row(truth.logits, p);
    result.spread.push_back(
        spread_of(row, probes, [p](const Output& o) { return logits_row(o.logits, p); }));
    result.budget.push_back(budget_of(row, result.spread.back(), unit));
  }
}

void assess_routing(const Output& truth, const std::vector<Output>& probes,
                    const ModelConfig& config, double unit, Assessment& result) {
  const int positions = truth.logits.positions;
  result.ill_conditioned.assign(positions, false);
  for (const TraceArray& array : truth.trace) {
    if (!array.name.ends_with(".router")) continue;
    for (int p = 0; p < positions; ++p) {
      if (!routing_within_noise(trace_row(array, p), probes, array.name, p, config.top_k_experts,
                                unit)) {
        continue;
      }
      // Without causality every position sees this one; with it, those that follow.
      std::fill(result.ill_conditioned.begin() + (config.bidirectional_all ? 0 : p),
                result.ill_conditioned.end(), true);
      break;
    }
  }
}

void assess_traces(const Output& truth, const std::vector<Output>& probes, double unit,
                   Assessment& result) {
  for (const TraceArray& array : truth.trace) {
    std::vector<double>& budgets = result.trace_budget[array.name];
    for (int p = 0; p < truth.logits.positions; ++p) {
      const std::span<const double> row = trace_row(array, p);
      const double spread = spread_of(row, probes, [&](const Output& o) {
        return trace_row(*find_array(o.trace, array.name), p);
      });
      budgets.push_back(budget_of(row, spread, unit));
    }
  }
}

}  // namespace

Yardstick::Yardstick(std::shared_ptr<const Checkpoint> checkpoint, std::string dtype)
    : checkpoint_(std::move(checkpoint)),
      dtype_(unit_roundoff(dtype) > 0 ? std::move(dtype) : "float32") {}

const Assessment& Yardstick::assess(const TokenHistory& history, bool traces) {
  const bool causal = !checkpoint_->config().bidirectional_all;
  for (const auto& entry : done_) {
    const bool covers = causal ? history.is_prefix_of(entry->history) : history == entry->history;
    if (covers && (!traces || !entry->trace_budget.empty())) return *entry;
  }
  done_.push_back(std::make_unique<Assessment>(measure(history, traces)));
  return *done_.back();
}

Assessment Yardstick::measure(const TokenHistory& history, bool traces) const {
  const ModelConfig& config = checkpoint_->config();
  const bool with_traces = traces || config.enable_moe_block;
  const double unit = unit_roundoff(dtype_);
  const Output truth = run(Model<Float64>(checkpoint_), history, with_traces);
  std::vector<Output> probes;
  for (int i = 0; i < kProbes; ++i) {
    const NoiseScope noise(noise_of(dtype_, static_cast<std::uint64_t>(i) + 1));
    probes.push_back(run(Model<Noisy>(checkpoint_), history, with_traces));
  }
  Assessment result;
  result.history = history;
  result.truth = truth.logits;
  assess_logits(truth, probes, unit, result);
  assess_routing(truth, probes, config, unit, result);
  if (traces) assess_traces(truth, probes, unit, result);
  return result;
}

}  // namespace kvconform
