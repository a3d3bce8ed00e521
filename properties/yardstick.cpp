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

std::vector<int> ranking(std::span<const double> probabilities) {
  std::vector<int> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return probabilities[a] > probabilities[b]; });
  return order;
}

/// Is the k-th expert of a token nearer to the next one than noise can move them?
bool routing_within_noise(std::span<const double> truth, const std::vector<Output>& probes,
                          const std::string& array, int position, int k, double unit,
                          double multiple) {
  if (k >= static_cast<int>(truth.size())) return false;
  double noise = unit;
  for (const Output& probe : probes) {
    const std::span<const double> row = trace_row(*find_array(probe.trace, array), position);
    noise = std::max(noise, largest_difference(truth, row));
  }
  const std::vector<int> order = ranking(truth);
  const double gap = truth[order[k - 1]] - truth[order[k]];
  return !(gap > 2 * multiple * noise);
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

/// All runs of one history, and what they say of it.
class Probing {
 public:
  Probing(const Checkpoint& checkpoint, double unit, double multiple, Output true_output,
          std::vector<Output> probes, std::vector<Output> loud)
      : config_(checkpoint.config()),
        unit_(unit),
        multiple_(multiple),
        truth_(std::move(true_output)),
        probes_(std::move(probes)),
        loud_(std::move(loud)) {}

  Assessment assess(const TokenHistory& history, bool traces) {
    result_.history = history;
    result_.truth = truth_.logits;
    result_.ill_conditioned.assign(truth_.logits.positions, false);
    assess_logits();
    assess_linearity();
    assess_routing();
    if (traces) assess_traces();
    return std::move(result_);
  }

 private:
  double budget_of(std::span<const double> row, double spread) const {
    return multiple_ * spread + Yardstick::kFloor * unit_ * largest_magnitude(row);
  }

  void assess_logits() {
    for (int p = 0; p < truth_.logits.positions; ++p) {
      const std::span<const double> row = logits_row(truth_.logits, p);
      const double spread =
          spread_of(row, probes_, [p](const Output& o) { return logits_row(o.logits, p); });
      const double budget = budget_of(row, spread);
      result_.spread.push_back(spread);
      result_.budget.push_back(budget);
      const bool vague = !(budget <= Yardstick::kVague * largest_magnitude(row));
      if (vague) result_.ill_conditioned[p] = true;
    }
  }

  /// Rows in which louder noise costs far more than its share.
  void assess_linearity() {
    for (int p = 0; p < truth_.logits.positions; ++p) {
      const double strayed = spread_of(logits_row(truth_.logits, p), loud_,
                                       [p](const Output& o) { return logits_row(o.logits, p); });
      const bool linear = strayed <= Yardstick::kNonlinear * result_.budget[p];
      if (!linear) result_.ill_conditioned[p] = true;
    }
  }

  /// Experts: the first position whose choice noise could turn, and all that see it.
  void assess_routing() {
    for (const TraceArray& array : truth_.trace) {
      if (!array.name.ends_with(".router")) continue;
      for (int p = 0; p < truth_.logits.positions; ++p) {
        if (!routing_within_noise(trace_row(array, p), probes_, array.name, p,
                                  config_.top_k_experts, unit_, multiple_)) {
          continue;
        }
        const int first = config_.bidirectional_all ? 0 : p;
        std::fill(result_.ill_conditioned.begin() + first, result_.ill_conditioned.end(), true);
        break;
      }
    }
  }

  void assess_traces() {
    for (const TraceArray& array : truth_.trace) {
      std::vector<double>& budgets = result_.trace_budget[array.name];
      for (int p = 0; p < truth_.logits.positions; ++p) {
        const std::span<const double> row = trace_row(array, p);
        const double spread = spread_of(row, probes_, [&](const Output& o) {
          return trace_row(*find_array(o.trace, array.name), p);
        });
        budgets.push_back(budget_of(row, spread));
      }
    }
  }

  const ModelConfig& config_;
  double unit_, multiple_;
  Output truth_;
  std::vector<Output> probes_, loud_;
  Assessment result_;
};

}  // namespace

Yardstick::Yardstick(std::shared_ptr<const Checkpoint> checkpoint, std::string dtype)
    : checkpoint_(std::move(checkpoint)),
      dtype_(unit_roundoff(dtype) > 0 ? std::move(dtype) : "float32") {}

double Yardstick::unit() const {
  return unit_roundoff(dtype_);
}

double Yardstick::multiple() const {
  return unit() > unit_roundoff("float32") ? kStoredMultiple : kMultiple;
}

const Assessment& Yardstick::assess(const TokenHistory& history, bool traces) {
  return covering(history, traces);
}

const Assessment& Yardstick::assess_closely(const TokenHistory& history) {
  Assessment& known = covering(history, false);
  if (known.close) return known;
  known.close = true;
  for (int i = 0; i < kCloseProbes; ++i) {
    const int seed = kProbes + kLoudProbes + 1 + i;
    const Output strayed = probe(known.history, seed, multiple() / 4, false);
    for (int p = 0; p < known.truth.positions; ++p) {
      const double off =
          largest_difference(logits_row(known.truth, p), logits_row(strayed.logits, p));
      if (!(off <= known.budget[p])) known.ill_conditioned[p] = true;
    }
  }
  return known;
}

Assessment& Yardstick::covering(const TokenHistory& history, bool traces) {
  const bool causal = !checkpoint_->config().bidirectional_all;
  for (const auto& entry : done_) {
    const bool covers = causal ? history.is_prefix_of(entry->history) : history == entry->history;
    if (covers && (!traces || !entry->trace_budget.empty())) return *entry;
  }
  done_.push_back(std::make_unique<Assessment>(measure(history, traces)));
  return *done_.back();
}

Output Yardstick::probe(const TokenHistory& history, int seed, double loudness, bool traces) const {
  Noise noise = noise_of(dtype_, static_cast<std::uint64_t>(seed));
  noise.unit *= loudness;
  noise.storage_unit *= loudness;
  const NoiseScope scope(noise);
  return run(Model<Noisy>(checkpoint_), history, traces);
}

Assessment Yardstick::measure(const TokenHistory& history, bool traces) const {
  const bool all = traces || checkpoint_->config().enable_moe_block;
  std::vector<Output> probes, loud;
  for (int i = 1; i <= kProbes; ++i) probes.push_back(probe(history, i, 1, all));
  for (int i = 1; i <= kLoudProbes; ++i)
    loud.push_back(probe(history, kProbes + i, multiple(), all));
  Output truth = run(Model<Float64>(checkpoint_), history, all);
  Probing probing(*checkpoint_, unit(), multiple(), std::move(truth), std::move(probes),
                  std::move(loud));
  return probing.assess(history, traces);
}

}  // namespace kvconform
