// The gate on machine code, end to end: nvcc compiles two kernels, and the same two with a spill
// and one more load planted in their source. Needs nvcc and cuobjdump, no GPU.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/bench_comparison.h"
#include "bench/machine_code.h"
#include "bench/report.h"
#include "properties/temporary_folder.h"

namespace kvconform::bench {
namespace {

namespace fs = std::filesystem;

/// Replaces each of `from` in a file, of which there must be one at least.
void replace_all(const fs::path& file, const std::string& from, const std::string& to) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::string changed = text.str();
  std::size_t at = changed.find(from);
  ASSERT_NE(at, std::string::npos) << from << " in " << file;
  for (; at != std::string::npos; at = changed.find(from, at + to.size()))
    changed.replace(at, from.size(), to);
  std::ofstream(file) << changed;
}

/// A tree with two kernels in it.
void copy_tree(const fs::path& tree) {
  const fs::path cuda = fs::path(KVCONFORM_SOURCE_DIR) / "cuda";
  fs::create_directories(tree / "cuda");
  for (const char* folder : {"device", "kernels"})
    fs::copy(cuda / folder, tree / "cuda" / folder, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(cuda / "kernels")) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".cu" && name != "append.cu" && name != "attention.cu")
      fs::remove(tree / "cuda" / "kernels" / name);
  }
}

/// At most 32 registers a thread for a kernel that has use for more than twice as many.
void plant_spill(const fs::path& tree) {
  replace_all(tree / "cuda/kernels/attention.cu", "DV_KERNEL(128, 1)", "DV_KERNEL(128, 16)");
}

/// Not to be folded away: 0 · NaN is NaN.
void plant_load(const fs::path& tree) {
  replace_all(tree / "cuda/kernels/append.cu", "= values[i];",
              "= values[i] + 0.f * values[i / 2];");
}

Results results_of(const fs::path& tree, const fs::path& scratch) {
  fs::create_directories(scratch);
  return results_from(machine_code_json(scratch, tree), "nvcc");
}

class MachineCodeGate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!missing().empty()) return;
    const TemporaryFolder folder("kvconform-machine-code-test");
    copy_tree(folder.path() / "healthy");
    copy_tree(folder.path() / "planted");
    plant_spill(folder.path() / "planted");
    plant_load(folder.path() / "planted");
    healthy() = results_of(folder.path() / "healthy", folder.path() / "a");
    planted() = results_of(folder.path() / "planted", folder.path() / "b");
  }
  static std::string missing() {
    return machine_code_missing().empty() ? disassembler_missing() : machine_code_missing();
  }
  void SetUp() override {
    if (!missing().empty()) GTEST_SKIP() << missing();
  }
  static Results& healthy() {
    static Results results;
    return results;
  }
  static Results& planted() {
    static Results results;
    return results;
  }
  /// Regressions of a count in a kernel whose name starts so, by architecture.
  static std::vector<CountChange> regressions(const std::string& kernel,
                                              const std::string& counter) {
    std::vector<CountChange> found;
    for (const CountChange& change : compare_counts(healthy(), planted()).changes)
      if (change.regression && change.counter == counter &&
          change.benchmark.find(kernel) != std::string::npos)
        found.push_back(change);
    return found;
  }
  static bool misses_gate(const Results& before, const Results& after) {
    Comparison comparison;
    comparison.counts = compare_counts(before, after);
    CompareFacts facts;
    facts.gate_counts = true;
    return missed_a_gate(comparison, facts);
  }
};

TEST_F(MachineCodeGate, has_numbers_of_each_kernel_for_each_architecture) {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    int kernels = 0;
    for (const Entry& entry : healthy().entries) {
      if (!entry.name.ends_with(architecture)) continue;
      ++kernels;
      EXPECT_GT(entry.counter("registers"), 0) << entry.name;
      EXPECT_GT(entry.counter("instructions"), 10) << entry.name;
      EXPECT_GT(entry.counter("instructions_global_load"), 0) << entry.name;
      EXPECT_EQ(entry.counter("spill_bytes"), 0) << entry.name;
    }
    EXPECT_GT(kernels, 5) << architecture;
  }
}

TEST_F(MachineCodeGate, passes_a_tree_against_itself) {
  EXPECT_TRUE(compare_counts(healthy(), healthy()).changes.empty());
  EXPECT_FALSE(misses_gate(healthy(), healthy()));
}

TEST_F(MachineCodeGate, catches_a_planted_spill_for_every_architecture) {
  EXPECT_TRUE(misses_gate(healthy(), planted()));
  for (const char* counter : {"spill_bytes", "instructions_local"})
    EXPECT_GE(regressions("attention_piece_kernel", counter).size(), 4u) << counter;
}

TEST_F(MachineCodeGate, catches_a_planted_load_for_every_architecture) {
  for (const char* counter : {"instructions", "instructions_global_load"})
    EXPECT_EQ(regressions("Append", counter).size(), 4u) << counter;
}

TEST_F(MachineCodeGate, passes_the_way_back) {
  EXPECT_FALSE(regressions("Append", "instructions").empty());
  for (const CountChange& change : compare_counts(planted(), healthy()).changes) {
    const bool append = change.benchmark.find("Append") != std::string::npos;
    EXPECT_FALSE(append && change.regression) << change.benchmark << " " << change.counter;
  }
}

}  // namespace
}  // namespace kvconform::bench
