// The gate on exact counts, end to end and without a clock: the healthy program against itself, and
// against one whose products read their weights twice.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/bench_comparison.h"
#include "bench/report.h"
#include "properties/temporary_folder.h"

namespace kvconform::bench {
namespace {

Results results_of(const std::string& program) {
  const TemporaryFolder scratch("kvconform-count-gate");
  const std::string file = (scratch.path() / "counts.json").string();
  const std::string command =
      program + " --size smoke --benchmark_filter='cuda/kernels|cuda/decode' --benchmark_out='" +
      file + "' --benchmark_out_format=json >/dev/null 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return read_results(file);
}

const Results& healthy() {
  static const Results results = results_of(HEALTHY_PROGRAM);
  return results;
}
const Results& planted() {
  static const Results results =
      results_of(std::string(PLANTED_PROGRAM) + " --plant-second-read-of-weights");
  return results;
}

TEST(CountGate, sees_nothing_between_a_build_and_itself) {
  const Results again = results_of(HEALTHY_PROGRAM);
  const CountComparison comparison = compare_counts(healthy(), again);
  EXPECT_GT(comparison.compared, 400u);
  EXPECT_TRUE(comparison.changes.empty()) << comparison.changes[0].counter;
  Comparison whole;
  whole.counts = comparison;
  CompareFacts facts;
  facts.gate_counts = true;
  EXPECT_FALSE(missed_a_gate(whole, facts));
}

TEST(CountGate, catches_a_second_read_of_the_weights_exactly) {
  const CountComparison comparison = compare_counts(healthy(), planted());
  const std::string name = "cuda/kernels/projection/group/tokens:1/k:768/outputs:64";
  bool found = false;
  for (const CountChange& change : comparison.changes) {
    if (change.benchmark != name || change.counter != "bytes_read") continue;
    EXPECT_EQ(change.after - change.before, 4 * 768 * 64);  // each weight once more
    EXPECT_TRUE(change.regression);
    found = true;
  }
  EXPECT_TRUE(found);
  Comparison whole;
  whole.counts = comparison;
  CompareFacts facts;
  facts.gate_counts = true;
  EXPECT_TRUE(missed_a_gate(whole, facts));
}

TEST(CountGate, blames_the_products_and_no_other_kernel) {
  for (const CountChange& change : compare_counts(healthy(), planted()).changes) {
    const bool product = change.benchmark.find("/projection/") != std::string::npos;
    const bool model = change.benchmark.rfind("cuda/decode", 0) == 0;
    EXPECT_TRUE(product || model) << change.benchmark << " " << change.counter;
  }
}

TEST(CountGate, has_right_results_on_both_sides) {
  for (const Results* results : {&healthy(), &planted()})
    for (const Entry& entry : results->entries) EXPECT_EQ(entry.error, "") << entry.name;
}

}  // namespace
}  // namespace kvconform::bench
