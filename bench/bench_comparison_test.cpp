// What a comparison calls a change, a regression and noise.
#include "bench/bench_comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/counters.h"
#include "bench/report.h"
#include "reference/error.h"
#include "reference/random.h"

namespace kvconform::bench {
namespace {

using nlohmann::json;

json entry(const std::string& name, double cpu_time, const json& counters = json::object()) {
  json value = {{"name", name},     {"run_name", name},     {"run_type", "iteration"},
                {"iterations", 1},  {"cpu_time", cpu_time}, {"real_time", cpu_time},
                {"time_unit", "us"}};
  value.update(counters);
  return value;
}

Results results(const std::vector<json>& entries) {
  return results_from({{"context", json::object()}, {"benchmarks", entries}}, "test");
}

TEST(Counts, that_are_equal_do_not_move) {
  const Results same = results({entry("a", 1, {{"bytes_read", 100}, {"launches", 2}})});
  const CountComparison comparison = compare_counts(same, same);
  EXPECT_EQ(comparison.compared, 2u);
  EXPECT_TRUE(comparison.changes.empty());
  EXPECT_FALSE(comparison.regressed());
}

TEST(Counts, that_grow_are_regressions_where_less_is_better) {
  const Results before = results({entry("a", 1, {{"bytes_read", 100}, {"blocks", 2}})});
  const Results after = results({entry("a", 1, {{"bytes_read", 101}, {"blocks", 3}})});
  const CountComparison comparison = compare_counts(before, after);
  ASSERT_EQ(comparison.changes.size(), 2u);
  EXPECT_EQ(comparison.changes[0].counter, "bytes_read");
  EXPECT_TRUE(comparison.changes[0].regression);
  EXPECT_FALSE(comparison.changes[1].regression);           // how work is cut is nobody's business
  EXPECT_FALSE(compare_counts(after, before).regressed());  // less is fine
}

TEST(Counts, that_are_new_or_gone_are_told) {
  const Results before = results({entry("a", 1, {{"spill_bytes", 0}}), entry("b", 1)});
  const Results after = results({entry("a", 1, {{"spill_bytes", 8}}), entry("c", 1)});
  const CountComparison comparison = compare_counts(before, after);
  EXPECT_TRUE(comparison.regressed());  // a new spill
  EXPECT_EQ(comparison.only_before, std::vector<std::string>{"b"});
  EXPECT_EQ(comparison.only_after, std::vector<std::string>{"c"});
}

TEST(Counts, of_a_rate_or_a_time_are_not_exact) {
  const Results before = results({entry("a", 1, {{"tokens_per_second", 5.5}})});
  const Results after = results({entry("a", 2, {{"tokens_per_second", 4.5}})});
  EXPECT_EQ(compare_counts(before, after).compared, 0u);
}

TEST(Gates, are_missed_by_counts_only_when_asked_for) {
  Comparison comparison;
  comparison.counts.changes = {{"a", "bytes_read", 1, 2, true}};
  CompareFacts facts;
  EXPECT_FALSE(missed_a_gate(comparison, facts));
  facts.gate_counts = true;
  EXPECT_TRUE(missed_a_gate(comparison, facts));
  comparison.counts.changes.clear();
  comparison.counts.only_before = {"a"};  // a number that is no longer counted cannot be held
  EXPECT_TRUE(missed_a_gate(comparison, facts));
}

TEST(Gates, are_missed_by_wrong_results_always) {
  Comparison comparison;
  comparison.wrong = {"a differs"};
  EXPECT_TRUE(missed_a_gate(comparison, {}));
}

/// Times of 20 rounds whose machine has moods of 40 % and whose builds differ by `ratio`.
TimeChange simulated(double ratio, double noise, std::uint64_t seed) {
  RandomStream random(stream_key(seed, "rounds"));
  const auto uniform = [&] { return RandomStream::symmetric(random.next()); };
  std::vector<double> before, after;
  for (int i = 0; i < 20; ++i) {
    const double mood = 1 + 0.4 * uniform();
    before.push_back(1e6 * mood * (1 + noise * uniform()));
    after.push_back(1e6 * ratio * mood * (1 + noise * uniform()));
  }
  std::vector<TimeChange> one = {paired_change("a", before, after)};
  adjust_for_many(one);
  return one[0];
}

TEST(Times, that_differ_by_five_percent_are_found_under_a_gate_of_two) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(simulated(1.05, 0.02, seed).slower_by_more_than(2)) << seed;
    EXPECT_FALSE(simulated(1.05, 0.02, seed).slower_by_more_than(6)) << seed;
  }
}

TEST(Times, that_do_not_differ_are_no_change) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    EXPECT_FALSE(simulated(1, 0.05, seed).significant()) << seed;
}

TEST(Times, that_got_better_are_significant_and_pass_the_gate) {
  const TimeChange change = simulated(0.9, 0.02, 1);
  EXPECT_TRUE(change.significant());
  EXPECT_FALSE(change.slower_by_more_than(0));
}

TEST(Times, of_single_runs_are_shown_and_not_judged) {
  const auto changes = compare_times(results({entry("a", 1)}), results({entry("a", 9)}));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].ratio.middle, 9);
  EXPECT_FALSE(changes[0].significant());
  EXPECT_TRUE(changes[0].too_noisy_for(2)) << "nothing is known of noise";
}

TEST(Times, whose_noise_hides_what_the_gate_looks_for_are_inconclusive) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (double ratio : {1.0, 1.05}) {
      const TimeChange noisy = simulated(ratio, 0.4, seed);
      EXPECT_TRUE(noisy.too_noisy_for(2) || noisy.ratio.high < 1.02) << seed;
      EXPECT_NE(noisy.too_noisy_for(2), noisy.decides(2)) << seed;
    }
    EXPECT_FALSE(simulated(1, 0.01, seed).too_noisy_for(2)) << seed;
    EXPECT_FALSE(simulated(1.05, 0.01, seed).too_noisy_for(2)) << seed << ": that is too slow";
    EXPECT_FALSE(simulated(0.5, 0.4, seed).too_noisy_for(2)) << seed << ": clearly faster";
  }
}

TEST(Times, decide_where_the_interval_lies_on_one_side_of_the_gate) {
  TimeChange change;
  const auto decides = [&](double low, double high, double gate) {
    change.ratio = {low, (low + high) / 2, high};
    return change.decides(gate);
  };
  EXPECT_TRUE(decides(0.99, 1.019, 2));
  EXPECT_TRUE(decides(1.021, 1.2, 2));
  EXPECT_FALSE(decides(1.019, 1.021, 2));
  EXPECT_TRUE(decides(0.992, 1.008, -1));
  EXPECT_FALSE(decides(0.98, 1.02, -1));
}

TEST(Times, that_are_looked_at_several_times_pay_for_it) {
  std::vector<double> before, after;
  for (int i = 0; i < 20; ++i) {
    before.push_back(100 + i * i % 7);
    after.push_back(101 + i * i % 11);
  }
  const TimeChange once = paired_change("a", before, after);
  const TimeChange thrice = paired_change("a", before, after, 3);
  EXPECT_DOUBLE_EQ(thrice.p, std::min(1.0, 3 * once.p));
  EXPECT_GT(thrice.uncertainty(), once.uncertainty());
}

TEST(Gates, that_noise_hides_are_neither_missed_nor_passed) {
  Comparison comparison;
  comparison.times = {simulated(1, 0.4, 1)};
  CompareFacts facts;
  EXPECT_FALSE(too_noisy(comparison, facts)) << "without a gate there is nothing to hold";
  facts.gate = 2;
  EXPECT_TRUE(too_noisy(comparison, facts));
  EXPECT_FALSE(missed_a_gate(comparison, facts));
  EXPECT_FALSE(compare_document(comparison, facts).good);
  EXPECT_NE(verdict_of(comparison.times[0], facts).find("too wide"), std::string::npos);
}

TEST(Times, of_repetitions_in_files_are_tested) {
  std::vector<json> before, after;
  for (int i = 0; i < 10; ++i) {
    before.push_back(entry("a", 100 + i));
    after.push_back(entry("a", 120 + i));
  }
  const auto changes = compare_times(results(before), results(after));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].slower_by_more_than(5));
  EXPECT_FALSE(compare_times(results(before), results(before))[0].significant());
}

TEST(Times, of_the_emulation_are_not_compared) {
  json emulated = entry("a", 1);
  emulated["label"] = "emulated: not a kernel time";
  EXPECT_TRUE(compare_times(results({emulated}), results({emulated})).empty());
}

TEST(Results, are_refused_with_an_id_where_they_are_none) {
  for (const json& value : {json::object(), json::array(), json{{"context", 1}}}) {
    try {
      results_from(value, "that file");
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), "KV5002");
      EXPECT_NE(error.problem().find("that file"), std::string::npos);
    }
  }
}

TEST(Results, drop_aggregates_and_googles_suffix) {
  json mean = entry("a_mean", 1);
  mean["run_type"] = "aggregate";
  const Results read = results({entry("a/iterations:1", 1), mean});
  ASSERT_EQ(read.entries.size(), 1u);
  EXPECT_EQ(read.entries[0].name, "a");
  EXPECT_EQ(read.entries[0].cpu_nanoseconds, 1000);
}

TEST(Results, of_a_wrong_benchmark_carry_its_error) {
  json wrong = entry("a", 0);
  wrong.update({{"error_occurred", true}, {"error_message", "row 0 differs from score"}});
  const Results read = results({wrong});
  EXPECT_EQ(read.entries[0].error, "row 0 differs from score");
  EXPECT_FALSE(run_document(read, {}).good);
  EXPECT_NE(markdown(run_document(read, {})).find("row 0 differs"), std::string::npos);
}

}  // namespace
}  // namespace kvconform::bench
