// Are these numbers the same? Two kinds of equality (numerics.md): the same bits, where a design
// promises them, and an error budget between implementations. NaN and infinity come first and never
// pass: only a proven-small difference does.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "properties/history.h"
#include "properties/verdict.h"
#include "reference/trace.h"

namespace kvconform {

/// How far one row of numbers is from another.
struct RowComparison {
  bool within = false;     ///< proven equal, or within the budget
  double budget_used = 0;  ///< share of the budget; infinity where bits differ or NaN appears
  double error = 0;        ///< the largest absolute difference; NaN if a number is NaN
  int worst = -1;      ///< index of that difference; −1 if there is none (empty, shapes differ)
  std::string reason;  ///< why not, where it is more than a difference: "NaN", "shapes differ"
};

/// The same bits, zero's sign included. Numbers that are not finite never pass.
RowComparison compare_bits(std::span<const double> expected, std::span<const double> seen);

/// |expected − seen| ≤ budget for each number.
RowComparison compare_within(std::span<const double> expected, std::span<const double> seen,
                             double budget);

/// The worst number of a row as a place; which call, row and token, and which part where it is not
/// the logits, is the caller's to say.
Difference worst_of(const RowComparison& row, std::span<const double> expected,
                    std::span<const double> seen);

/// The logits of one position of an output; row `position` of a trace array.
std::span<const double> logits_row(const Logits& logits, int position);
std::span<const double> trace_row(const TraceArray& array, int position);
const TraceArray* find_array(const Trace& trace, const std::string& name);

/// Decodes "layer.3.output", a position and an index within it into layer, part, dimension.
Difference decode(const TraceArray& array, int index, int hidden_size);

}  // namespace kvconform
