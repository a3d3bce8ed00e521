// Comparing rows of numbers; naming the place of a difference.
#include "properties/comparison.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvconform {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What is settled before any subtraction: shapes, emptiness, NaN and infinity.
std::optional<RowComparison> settle_first(std::span<const double> expected,
                                          std::span<const double> seen) {
  RowComparison result;
  result.budget_used = kInfinity;
  if (expected.size() != seen.size()) {
    result.reason = "shapes differ";
    return result;
  }
  if (expected.empty()) {
    result.reason = "nothing to compare";
    return result;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(expected[i]) && std::isfinite(seen[i])) continue;
    result.worst = static_cast<int>(i);
    result.error = std::abs(expected[i] - seen[i]);  // inf − inf is NaN: fails all the same
    result.reason = std::isnan(expected[i]) || std::isnan(seen[i]) ? "NaN" : "infinity";
    return result;
  }
  return std::nullopt;
}

/// The largest difference; on a tie the first.
void find_worst(std::span<const double> expected, std::span<const double> seen,
                RowComparison& result) {
  result.worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(expected[i] - seen[i]);
    if (error > result.error) {
      result.error = error;
      result.worst = static_cast<int>(i);
    }
  }
}

}  // namespace

RowComparison compare_bits(std::span<const double> expected, std::span<const double> seen) {
  if (auto settled = settle_first(expected, seen)) return *settled;
  RowComparison result;
  find_worst(expected, seen, result);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::bit_cast<std::uint64_t>(expected[i]) == std::bit_cast<std::uint64_t>(seen[i]))
      continue;
    if (result.error == 0) result.worst = static_cast<int>(i);  // only the sign of a zero
    result.budget_used = kInfinity;
    return result;
  }
  result.within = true;
  return result;
}

RowComparison compare_within(std::span<const double> expected, std::span<const double> seen,
                             double budget) {
  if (auto settled = settle_first(expected, seen)) return *settled;
  RowComparison result;
  find_worst(expected, seen, result);
  // A NaN or negative budget proves nothing, so it must not pass; 0/0 is a used share of 0.
  result.budget_used = result.error == 0 && budget >= 0 ? 0 : result.error / budget;
  result.within = result.error <= budget;
  if (!result.within && !(result.budget_used > 1)) result.budget_used = kInfinity;
  return result;
}

std::span<const double> trace_row(const TraceArray& array, int position) {
  const std::int64_t rows = array.shape.empty() ? 0 : array.shape.front();
  if (position < 0 || position >= rows) return {};
  const std::size_t width = array.values.size() / static_cast<std::size_t>(rows);
  return {array.values.data() + width * position, width};
}

const TraceArray* find_array(const Trace& trace, const std::string& name) {
  for (const TraceArray& array : trace) {
    if (array.name == name) return &array;
  }
  return nullptr;
}

Difference worst_of(const RowComparison& row, std::span<const double> expected,
                    std::span<const double> seen) {
  Difference place;
  place.part = "logits";
  place.dimension = row.worst;
  place.budget_used = row.budget_used;
  if (row.worst >= 0) place.expected = expected[row.worst], place.seen = seen[row.worst];
  return place;
}

std::span<const double> logits_row(const Logits& logits, int position) {
  return {logits.row(position), static_cast<std::size_t>(logits.vocab)};
}

Difference decode(const TraceArray& array, int index, int hidden_size) {
  Difference place;
  place.dimension = index;
  place.part = array.name;
  if (array.name.rfind("layer.", 0) == 0) {
    const char* begin = array.name.data() + 6;
    const char* end = array.name.data() + array.name.size();
    const auto [rest, code] = std::from_chars(begin, end, place.layer);
    if (code == std::errc() && rest != end) place.part = std::string(rest + 1, end);
  }
  if (array.name == "per_layer_inputs" && array.shape.size() == 3 && array.shape[2] > 0) {
    place.layer = static_cast<int>(index / array.shape[2]);
    place.dimension = static_cast<int>(index % array.shape[2]);
  } else if (array.shape.size() == 3 && hidden_size > 0) {
    place.dimension = index % hidden_size;  // of one AltUp stream
  }
  return place;
}

}  // namespace kvconform
