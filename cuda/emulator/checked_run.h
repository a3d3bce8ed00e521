// Watch every memory access of the launches made during this object's life.
//     CheckedRun run;
//     launch_something(...);
//     EXPECT_TRUE(run.reports().empty());
//     EXPECT_EQ(run.buffer("weights").read, run.buffer("weights").distinct_read);
// Only kernels from files compiled with -fsanitize=thread are seen completely; in others just the
// explicit primitives (ld128, st128, cp.async, ldmatrix, atomics) are. Launches run on one OS
// thread meanwhile.
#pragma once
#include "cuda/emulator/race_checker.h"
#include "cuda/emulator/traffic_counter.h"

namespace dv::emu {

class CheckedRun : public Observer {
 public:
  // Counting traffic costs ten times what looking for races does.
  explicit CheckedRun(bool count_traffic = false);
  ~CheckedRun() override;
  CheckedRun(const CheckedRun&) = delete;
  CheckedRun& operator=(const CheckedRun&) = delete;

  const std::vector<std::string>& reports() const { return races_.reports(); }
  std::vector<LineTraffic> lines() const { return traffic_.lines(); }
  std::vector<LineTraffic> wasteful_lines() const;  // more sectors or wavefronts than needed
  BufferTraffic buffer(const std::string& name) const { return traffic_.buffer(name); }
  uint64_t accesses() const { return accesses_; }

 private:
  void launch_begins(uint32_t first_serial) override { races_.launch_begins(first_serial); }
  void block_begins(Block& b) override { races_.block_begins(b); }
  void block_ends(Block& b) override { traffic_.block_ends(b); }
  void access(uintptr_t, int bytes, Access, void* pc, Location) override;
  RaceChecker races_;
  TrafficCounter traffic_;
  bool count_traffic_;
  uint64_t accesses_ = 0;
};

}  // namespace dv::emu
