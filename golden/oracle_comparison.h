// Distances between computed and expected numbers, for tests against stored data. They are made to
// fail: NaN on either side, another shape or another count is an infinite distance, never a small
// one.
#pragma once

#include <span>

#include "golden/expected_arrays.h"
#include "golden/oracle_cases.h"
#include "reference/trace.h"

namespace kvconform {

/// Largest |a − b|.
double largest_difference(std::span<const double> a, std::span<const double> b);

/// Largest difference as a share of the largest magnitude of `expected`; of zeros only, 0 or
/// infinite.
double relative_difference(std::span<const double> values, std::span<const double> expected);

/// The worst row's relative difference: each row is measured by its own largest logit.
double worst_row(const Logits& logits, const ExpectedArray& expected);
double worst_row(const Logits& logits, const Logits& expected);

/// The traced arrays against those of the case's traced prompt; also that none of the stored ones
/// is left out.
struct TraceComparison {
  double worst = 0.0;
  std::string where;                 ///< name of the worst array
  std::vector<std::string> missing;  ///< stored, not traced
};
TraceComparison compare_trace(const Trace& trace, const OracleCase& oracle);

}  // namespace kvconform
