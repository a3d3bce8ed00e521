// The sharing plan as text and as JSON, see plan_report.h. Columns are as wide as their widest
// entry.
#include "reference/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/counted.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Plan = std::vector<LayerPlan>;
using Row = std::vector<std::string>;

constexpr int bfloat16_bytes = 2, float32_bytes = 4;

const char* kind_name(Rope::Kind kind) {
  switch (kind) {
    case Rope::Kind::linear:
      return "linear";
    case Rope::Kind::proportional:
      return "proportional";
    default:
      return "default";
  }
}

std::string rope_text(const Rope& rope) {
  std::string text = fmt::format("{} {:g}", kind_name(rope.kind), rope.theta);
  if (rope.factor != 1.0) text += fmt::format(" /{:g}", rope.factor);
  if (rope.kind == Rope::Kind::proportional) {
    text += fmt::format(" x{:g}", rope.partial_rotary_factor);
  }
  return text;
}

Row row_of(const LayerPlan& layer) {
  return {std::to_string(layer.layer),
          layer.type == AttentionType::sliding ? "sliding" : "full",
          to_string(layer.role),
          std::to_string(layer.owner),
          std::to_string(layer.cache_slot),
          fmt::format("{}/{}{}", layer.query_heads, layer.key_value_heads,
                      layer.values_from_keys ? " v=k" : ""),
          std::to_string(layer.head_dim),
          layer.window == 0 ? "-" : std::to_string(layer.window),
          rope_text(layer.rope),
          std::to_string(layer.intermediate_size)};
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) line += fmt::format("{:<{}}  ", row[c], widths[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

int window_of(const Plan& plan) {
  for (const LayerPlan& layer : plan) {
    if (layer.type == AttentionType::sliding) return layer.window;
  }
  return 0;
}

int count(const Plan& plan, Role role) {
  return static_cast<int>(std::count_if(
      plan.begin(), plan.end(), [role](const LayerPlan& layer) { return layer.role == role; }));
}

std::string cost_line(const char* number_format, const CacheCost& cost) {
  return fmt::format("  {:<9} {} bytes a token, {} without sharing ({:.1f} % saved)\n",
                     number_format, cost.shared(), cost.unshared, cost.saved_percent());
}

std::string bounded_lines(const Plan& plan) {
  const int window = window_of(plan);
  if (window == 0) return "  no layer slides: all of it grows with every token\n";
  const CacheCost narrow = cache_cost(plan, bfloat16_bytes), wide = cache_cost(plan, float32_bytes);
  return fmt::format(
      "  full layers grow with every token: {} (bfloat16), {} (float32) bytes each\n"
      "  sliding layers stop at the window of {}: at most {} (bfloat16), {} (float32) "
      "bytes\n",
      narrow.full_layers, wide.full_layers, counted(window, "token"),
      narrow.sliding_layers * window, wide.sliding_layers * window);
}

std::string cache_text(const Plan& plan) {
  return fmt::format(
             "\ncache: {} for {} ({}, {}, {} independent)\n", counted(cache_slots(plan), "slot"),
             counted(plan.size(), "layer"), counted(count(plan, Role::producer), "producer"),
             counted(count(plan, Role::consumer), "consumer"), count(plan, Role::independent)) +
         cost_line("bfloat16", cache_cost(plan, bfloat16_bytes)) +
         cost_line("float32", cache_cost(plan, float32_bytes)) + bounded_lines(plan);
}

std::string notes_text(const ModelConfig& config, const Plan& plan) {
  std::string text;
  const auto warnings = plan_warnings(config, plan);
  if (!warnings.empty()) text += "\nwarnings:\n";
  for (const std::string& warning : warnings) text += "  " + warning + "\n";
  if (config.ignored.empty()) return text;
  std::vector<Row> rows;
  for (const auto& ignored : config.ignored) rows.push_back({"  " + ignored.field, ignored.reason});
  return text + "\nignored fields of the configuration:\n" + aligned(rows);
}

json rope_json(const Rope& rope) {
  return {{"type", kind_name(rope.kind)},
          {"theta", rope.theta},
          {"factor", rope.factor},
          {"partial_rotary_factor", rope.partial_rotary_factor}};
}

json or_null(int value) {
  return value == 0 ? json() : json(value);
}

json layer_json(const LayerPlan& layer) {
  return {{"layer", layer.layer},
          {"type", to_string(layer.type)},
          {"role", to_string(layer.role)},
          {"owner", layer.owner},
          {"cache_slot", layer.cache_slot},
          {"last_reader", layer.last_reader},
          {"query_heads", layer.query_heads},
          {"key_value_heads", layer.key_value_heads},
          {"head_dim", layer.head_dim},
          {"window", or_null(layer.window)},
          {"rope", rope_json(layer.rope)},
          {"values_from_keys", layer.values_from_keys},
          {"intermediate_size", layer.intermediate_size},
          {"activation_sparsity", layer.activation_sparsity}};
}

json cost_json(const Plan& plan, int bytes_per_number) {
  const CacheCost cost = cache_cost(plan, bytes_per_number);
  return {{"bytes_per_token", cost.shared()},
          {"bytes_per_token_unshared", cost.unshared},
          {"bytes_per_token_full_layers", cost.full_layers},
          {"bytes_per_token_sliding_layers", cost.sliding_layers},
          {"sliding_layers_at_most", cost.sliding_layers * window_of(plan)}};
}

}  // namespace

double CacheCost::saved_percent() const {
  if (unshared == 0) return 0.0;  // no layers: nothing to save, not 0 / 0
  return 100.0 * static_cast<double>(unshared - shared()) / static_cast<double>(unshared);
}

CacheCost cache_cost(const Plan& plan, int bytes_per_number) {
  CacheCost cost;
  for (LayerPlan layer : plan) {
    const long long bytes = cache_bytes_per_token(layer, bytes_per_number);
    (layer.type == AttentionType::sliding ? cost.sliding_layers : cost.full_layers) += bytes;
    layer.role = Role::independent;
    cost.unshared += cache_bytes_per_token(layer, bytes_per_number);
  }
  return cost;
}

std::vector<std::string> plan_warnings(const ModelConfig& config, const Plan& plan) {
  std::vector<std::string> warnings;
  const auto warn = [&](bool applies, const char* text) {
    if (applies) warnings.push_back(text);
  };
  warn(config.bidirectional_all,
       "attention is bidirectional: no cache makes sense, only whole sequences");
  warn(config.kv_sharing_map.has_value(),
       "kv_sharing_map is an extension: implementations without it follow num_kv_shared_layers");
  warn(window_of(plan) == 1,
       "window 1: the dynamic cache of transformers 5.24.0 shows all earlier tokens when decoding");
  warn(config.family == Family::gemma4 && config.hidden_size_per_layer_input == 0 &&
           count(plan, Role::consumer) > 0,
       "shared layers without per-layer inputs: transformers 5.24.0 fails for more than one token");
  warn(config.family == Family::gemma4 && config.hidden_size_per_layer_input > 0 &&
           config.vocab_size_per_layer_input < config.vocab_size,
       "vocab_size_per_layer_input is below vocab_size: the ids between are errors in Gemma 4");
  warn(config.family == Family::gemma3n && config.hidden_size_per_layer_input > 0 &&
           config.vocab_size_per_layer_input < config.vocab_size,
       "ids from vocab_size_per_layer_input on use row 0 of the per-layer embeddings");
  return warnings;
}

std::string plan_table(const ModelConfig& config, const Plan& plan) {
  std::vector<Row> rows{{"layer", "type", "role", "owner", "slot", "heads q/kv", "head size",
                         "window", "rotary", "feed-forward"}};
  for (const LayerPlan& layer : plan) rows.push_back(row_of(layer));
  return fmt::format("{}: {}\n\n", to_string(config.family), counted(plan.size(), "layer")) +
         aligned(rows) + cache_text(plan) + notes_text(config, plan);
}

json plan_json(const ModelConfig& config, const Plan& plan) {
  json layers = json::array(), ignored = json::array();
  for (const LayerPlan& layer : plan) layers.push_back(layer_json(layer));
  for (const auto& field : config.ignored) {
    ignored.push_back({{"field", field.field}, {"reason", field.reason}});
  }
  return {{"family", to_string(config.family)},
          {"num_layers", plan.size()},
          {"layers", layers},
          {"cache",
           {{"slots", cache_slots(plan)},
            {"saved_percent", cache_cost(plan, bfloat16_bytes).saved_percent()},
            {"sliding_window", or_null(window_of(plan))},
            {"bfloat16", cost_json(plan, bfloat16_bytes)},
            {"float32", cost_json(plan, float32_bytes)}}},
          {"ignored", ignored},
          {"warnings", plan_warnings(config, plan)}};
}

}  // namespace kvconform
