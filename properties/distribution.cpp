// Reading quantities off a case. Numbers up to 8 stand alone, larger ones in ranges that double.
#include "properties/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "reference/layer_plan.h"

namespace kvconform {
namespace {

std::string range_of(int value) {
  if (value <= 8) return std::to_string(value);
  int low = 9, high = 16;
  while (value > high) {
    low = high + 1;
    high *= 2;
  }
  return fmt::format("{}-{}", low, high);
}

std::string sharing_of(const std::vector<LayerPlan>& plan, const ModelConfig& config) {
  const auto consumers =
      std::count_if(plan.begin(), plan.end(), [](const LayerPlan& l) { return !l.owns_keys(); });
  if (consumers == 0) return "none";
  if (config.kv_sharing_map) return "explicit map";
  if (consumers == 1) return "one layer";
  return consumers + 1 == static_cast<int>(plan.size()) ? "all but one layer" : "the last layers";
}

std::string types_of(const ModelConfig& config) {
  const std::set<AttentionType> types(config.layer_types.begin(), config.layer_types.end());
  if (types.size() > 1) return "both";
  return types.count(AttentionType::sliding) ? "sliding only" : "full only";
}

/// What stands straight before a save, of the calls about the same session.
std::string before(const std::vector<Call>& calls, std::size_t save) {
  for (std::size_t i = save; i-- > 0;) {
    if (calls[i].session == calls[save].session) return to_string(calls[i].kind);
  }
  return "nothing";
}

int leading_number(const std::string& text) {
  return text.empty() || text[0] < '0' || text[0] > '9' ? 1 << 30 : std::atoi(text.c_str());
}

}  // namespace

Buckets buckets_of(const Case& test_case, const ModelConfig& config) {
  const std::vector<LayerPlan> plan = plan_layers(config);
  const bool slides =
      std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::sliding) > 0;
  int tokens = 0, rows = 1;
  std::set<std::string> chunks, kinds, before_saves;
  for (std::size_t i = 0; i < test_case.calls.size(); ++i) {
    const Call& call = test_case.calls[i];
    if (call.kind == Call::Kind::save) before_saves.insert(before(test_case.calls, i));
    kinds.insert(to_string(call.kind));
    rows = std::max({rows, call.batch, static_cast<int>(call.tokens.size())});
    for (const auto& row : call.tokens) {
      tokens += static_cast<int>(row.size());
      chunks.insert(range_of(static_cast<int>(row.size())));
    }
  }
  Buckets buckets = {{"family", to_string(config.family)},
                     {"layers", range_of(config.num_layers)},
                     {"layer types", types_of(config)},
                     {"sliding window", slides ? range_of(config.sliding_window) : "none"},
                     {"sharing", sharing_of(plan, config)},
                     {"batch rows", range_of(rows)},
                     {"tokens of a case", range_of(tokens)},
                     {"calls of a case", range_of(static_cast<int>(test_case.calls.size()))}};
  for (const std::string& chunk : chunks) buckets.emplace_back("tokens of a row in a call", chunk);
  for (const std::string& kind : before_saves) buckets.emplace_back("straight before a save", kind);
  for (const std::string& kind : kinds) buckets.emplace_back("kinds of calls", kind);
  return buckets;
}

void add(const Buckets& buckets, Distribution& distribution) {
  for (const auto& [quantity, value] : buckets) ++distribution[quantity][value];
}

void add(const Distribution& more, Distribution& distribution) {
  for (const auto& [quantity, counts] : more) {
    for (const auto& [value, count] : counts) distribution[quantity][value] += count;
  }
}

std::vector<std::pair<std::string, std::int64_t>> in_order(
    const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> ordered(counts.begin(), counts.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return leading_number(a.first) < leading_number(b.first);
  });
  return ordered;
}

}  // namespace kvconform
