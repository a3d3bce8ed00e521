// Two builds on one machine at the same time: in each round both start their benchmark program
// anew and take turns of milliseconds, in the order A B B A, measured in CPU time of the one
// thread. What the machine does (other programs, clock frequency) hits both; where a new process
// happens to lie in memory is drawn again every round. A round's time is the median of its turns.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "bench/bench_comparison.h"

namespace kvconform::bench {

struct Interleaving {
  int rounds = 20;
  int turns = 10;                 ///< of each build in a round, an even number
  double seconds_a_turn = 0.004;  ///< CPU time
  const std::atomic<bool>* stop = nullptr;
};

/// `before` and `after` are programs (programs.h), `name` one of their benchmarks.
TimeChange run_interleaved(const std::filesystem::path& before, const std::filesystem::path& after,
                           const std::string& name, const Interleaving& options);

/// What makes times on this machine, now, less worth: clock frequency that may change, other
/// programs running, time taken by a hypervisor. Empty where nothing is known to.
std::vector<std::string> machine_warnings();

}  // namespace kvconform::bench
