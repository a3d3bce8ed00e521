// Two builds on one machine at the same time: in each round both start their benchmark program
// anew, on the same processor, and take turns of a millisecond or two, in the order A B B A,
// measured in CPU time of the one thread. What the machine does (other programs, clock frequency,
// a processor's caches) hits both; where a new process happens to lie in memory is drawn again
// every round. A round's time is the mean of its turns: their number is a multiple of 20, so that a
// cost that one of 20 runs has counts in full.
//
// Rounds go on until the interval decides, at most three looks: after 20 of them, 40 and 80. All
// looks together have the error rates of bench_comparison.h, by Bonferroni: each interval has a
// third of the allowed misses, each p is tripled.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "bench/bench_comparison.h"

namespace kvconform::bench {

struct Interleaving {
  int rounds = 20;                 ///< before the first look; each further look doubles them
  int looks = 3;                   ///< at most
  double gate = -1;                ///< percent that the interval must decide about; below 0: none
  int turns = 40;                  ///< of each build in a round, an even number
  double seconds_a_turn = 0.0015;  ///< CPU time
  const std::atomic<bool>* stop = nullptr;
};

/// `before` and `after` are programs (programs.h), `name` one of their benchmarks.
TimeChange run_interleaved(const std::filesystem::path& before, const std::filesystem::path& after,
                           const std::string& name, const Interleaving& options);

/// What makes times on this machine, now, less worth: clock frequency that may change, other
/// programs running, time taken by a hypervisor. Empty where nothing is known to.
std::vector<std::string> machine_warnings();

}  // namespace kvconform::bench
