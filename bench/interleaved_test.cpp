// Taking turns, with programs that only claim to have taken some time: nothing here is timed.
#include "bench/interleaved.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <string>
#include <vector>

#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform::bench {
namespace {

namespace fs = std::filesystem;

class Turns : public testing::Test {
 protected:
  /// A program that answers each N with N times `nanoseconds`, an expression of the shell; `start`
  /// counts how often it was started before.
  fs::path program(const std::string& name, const std::string& nanoseconds,
                   const std::string& first = "ready") {
    const fs::path file = folder_.path() / name, count = folder_.path() / (name + ".count");
    std::ofstream(file) << fmt::format(
        "#!/bin/sh\n"
        "start=$(cat '{0}' 2>/dev/null || echo 0)\n"
        "echo $((start + 1)) >'{0}'\n"
        "grep Cpus_allowed_list /proc/self/status >>'{1}'\n"
        "echo {2}\n"
        "while read -r runs; do echo $((runs * ({3}))); done\n",
        count.string(), processors().string(), first, nanoseconds);
    fs::permissions(file, fs::perms::owner_all);
    return file;
  }
  fs::path processors() const { return folder_.path() / "processors"; }

  Interleaving quick() const {
    Interleaving options;
    options.rounds = 6;
    options.turns = 4;
    options.seconds_a_turn = 1e-5;
    options.gate = 2;
    return options;
  }
  TemporaryFolder folder_{"kvconform-interleaved-test"};
};

TEST_F(Turns, find_the_ratio_whoever_begins) {
  const TimeChange change =
      run_interleaved(program("a", "1000"), program("b", "1050"), "any", quick());
  EXPECT_DOUBLE_EQ(change.ratio.middle, 1.05);
  EXPECT_DOUBLE_EQ(change.ratio.low, 1.05);
  EXPECT_DOUBLE_EQ(change.before, 1000);
  EXPECT_DOUBLE_EQ(change.after, 1050);
}

TEST_F(Turns, end_at_the_first_look_that_decides) {
  const fs::path same = program("a", "1000");
  EXPECT_EQ(run_interleaved(same, same, "any", quick()).rounds, 6u);
}

TEST_F(Turns, go_on_where_noise_leaves_the_gate_undecided_and_end_all_the_same) {
  // A quarter faster in two rounds, 30 % slower in the next two.
  const fs::path even = program("a", "1000"), noisy = program("b", "770 + start / 2 % 2 * 530");
  const TimeChange change = run_interleaved(even, noisy, "any", quick());
  EXPECT_EQ(change.rounds, 24u);
  EXPECT_TRUE(change.too_noisy_for(2));
  EXPECT_FALSE(change.significant());
}

TEST_F(Turns, of_a_round_are_taken_on_one_processor) {
  const fs::path same = program("a", "1000");
  run_interleaved(same, same, "any", quick());
  std::ifstream in(processors());
  std::vector<std::string> seen;
  for (std::string line; std::getline(in, line);) seen.push_back(line);
  ASSERT_EQ(seen.size(), 12u);
  for (std::size_t i = 0; i < seen.size(); i += 2) {
    EXPECT_EQ(seen[i], seen[i + 1]);
    EXPECT_EQ(seen[i].find_first_of(",-"), std::string::npos) << seen[i];
  }
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  if (CPU_COUNT(&ours) > 1) {
    EXPECT_NE(seen[0], seen[4]) << "rounds change their processor";
  }
}

TEST_F(Turns, with_a_program_that_answers_nonsense_are_an_error_with_an_id) {
  const fs::path good = program("a", "1000");
  for (const fs::path& bad : {program("b", "1000", "hello"), program("c", "0")}) {
    try {
      run_interleaved(good, bad, "any", quick());
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), "KV5003");
    }
  }
}

}  // namespace
}  // namespace kvconform::bench
