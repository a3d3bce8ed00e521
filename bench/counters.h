// Names of the counters that benchmarks write into Google Benchmark's JSON, and what may be said of
// them. Exact counters are pure functions of the source: two runs of one build agree to the last
// digit, on any machine, so that a difference between two builds is a fact and not a measurement.
#pragma once

#include <string>
#include <vector>

namespace kvconform::bench {

struct Counter {
  const char* name;
  const char* meaning;  ///< of one run of the benchmark, unless it says otherwise
  bool gated;           ///< an increase is a regression (`--gate-counts`)
};

/// The exact ones, in the order of reports.
const std::vector<Counter>& exact_counters();
const Counter* find_exact_counter(const std::string& name);

// Counts that rates and shares are made from.
inline constexpr const char* kTokens = "tokens";
inline constexpr const char* kBytesNeeded = "bytes_needed";
inline constexpr const char* kBytesRead = "bytes_read";
inline constexpr const char* kBytesWritten = "bytes_written";
inline constexpr const char* kMultiplyAdds = "multiply_adds";
inline constexpr const char* kCacheBytes = "cache_bytes";
inline constexpr const char* kLaunches = "launches";

}  // namespace kvconform::bench
