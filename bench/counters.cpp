// The table of exact counters.
#include "bench/counters.h"

#include <algorithm>

namespace kvconform::bench {

const std::vector<Counter>& exact_counters() {
  static const std::vector<Counter> all = {
      {kTokens, "tokens taken", false},
      {kBytesNeeded, "bytes that no implementation can avoid: weights once, keys and values seen",
       false},
      {kBytesRead, "bytes moved from global memory: sectors of 32 bytes, by request", true},
      {kBytesWritten, "bytes moved to global memory, likewise", true},
      {"bytes_read_once", "bytes read if every sector came once a launch", true},
      {kMultiplyAdds, "multiplications with additions of the model's formulas", false},
      {kCacheBytes, "bytes reserved for keys and values", true},
      {kLaunches, "kernels launched", true},
      {"launches_per_token", "kernels launched for each token", true},
      {"blocks", "blocks of threads", false},
      {"threads", "threads", false},
      {"barriers", "barriers, each counted once a block", true},
      {"read_requests", "reading requests of warps", true},
      {"read_sectors", "sectors those requests move", true},
      {"read_sectors_ideal",
       "sectors if each lane's bytes came once (lanes that read the same bytes need fewer)", false},
      {"write_requests", "writing requests of warps", true},
      {"write_sectors", "sectors those requests move", true},
      {"write_sectors_ideal", "the fewest they could move", false},
      {"bank_conflicts", "passes through shared memory beyond the fewest possible", true},
      {"registers", "registers of a thread", true},
      {"spill_bytes", "bytes of spill stores and loads in the code", true},
      {"stack_bytes", "bytes of stack frame", true},
      {"shared_bytes", "bytes of static shared memory", true},
      {"instructions", "instructions in the machine code", true},
      {"instructions_global_load", "loads from global memory in the code", true},
      {"instructions_global_store", "stores to global memory in the code", true},
      {"instructions_local", "accesses to local memory in the code: spills, stack", true},
      {"instructions_shared", "accesses to shared memory in the code", true},
      {"instructions_shuffle", "exchanges between lanes in the code", false},
      {"instructions_multiply_add", "fused multiply-adds in the code; they may replace two", false},
      {"instructions_matrix", "matrix instructions in the code; they replace many", false},
      {"instructions_barrier", "barriers in the code", true},
      {"instructions_branch", "branches in the code", true},
  };
  return all;
}

const Counter* find_exact_counter(const std::string& name) {
  const auto& all = exact_counters();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Counter& c) { return name == c.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace kvconform::bench
