// What a run of the benchmarks, or a comparison of two, came to: Markdown, one HTML page, and
// Google Benchmark's JSON beside them. Every section says whether its numbers are timed, counted on
// emulated threads, or computed from a configuration.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/bench_comparison.h"
#include "bench/document.h"

namespace kvconform::bench {

struct RunFacts {
  std::string commit, size;
  double seconds = 0;
  std::vector<std::string> warnings;
  std::string machine_code_missing;  ///< why there are no rows of machine code; empty: there are
  std::string disassembler_missing;  ///< why they have no instructions
};

Document run_document(const Results& results, const RunFacts& facts);

struct CompareFacts {
  std::string before, after;  ///< what was compared
  double gate = -1;           ///< percent; below 0: none
  bool gate_counts = false;
  std::vector<std::string> warnings;
};
struct Comparison {
  CountComparison counts;
  std::vector<TimeChange> times;
  std::vector<std::string> wrong;  ///< results that failed their verification
};
bool missed_a_gate(const Comparison& comparison, const CompareFacts& facts);
/// Is there a time that the gate cannot be held to, for noise? That is not passed either.
bool too_noisy(const Comparison& comparison, const CompareFacts& facts);
/// "slower", "too slow", "no change", "inconclusive: …"
std::string verdict_of(const TimeChange& change, const CompareFacts& facts);
Document compare_document(const Comparison& comparison, const CompareFacts& facts);

/// What sharing saves on models of real size, computed from their configurations: the table of the
/// README (`kvconform bench --figures`).
Table sharing_figures();

/// The folder, new or empty. Error KV5005 otherwise.
void open_bench_report(const std::filesystem::path& folder);
void write_bench_report(const std::filesystem::path& folder, const Document& document,
                        const nlohmann::json& json);

}  // namespace kvconform::bench
