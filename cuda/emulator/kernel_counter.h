// What each kernel did during this object's life, by the name of its launches: exact and
// repeatable numbers, the same on every machine.
//     KernelCounter counter;
//     launch_something(...);
//     counter.counts().at("projection").read_sectors
// Complete only for kernels from files compiled with -fsanitize=thread (checked_run.h). Only one
// observer can be in force: never beside a CheckedRun.
#pragma once
#include <unordered_set>

#include "cuda/emulator/traffic_counter.h"

namespace dv::emu {

struct KernelCounts {
  uint64_t launches = 0, blocks = 0, threads = 0;
  uint64_t barriers = 0;  // one for each block and __syncthreads
  // Global memory. A request is what a warp's lanes ask for with one instruction; it moves sectors
  // of 32 bytes. `distinct`: each sector once for the launch, however often it was asked for.
  uint64_t read_requests = 0, read_sectors = 0, read_sectors_ideal = 0;
  uint64_t write_requests = 0, write_sectors = 0, write_sectors_ideal = 0;
  uint64_t distinct_read_sectors = 0, distinct_write_sectors = 0;
  // Shared memory: passes through the 32 banks, and the fewest possible.
  uint64_t shared_passes = 0, shared_passes_ideal = 0;

  uint64_t bank_conflicts() const { return shared_passes - shared_passes_ideal; }
  KernelCounts& operator+=(const KernelCounts&);
};

class KernelCounter : public Observer {
 public:
  KernelCounter();
  ~KernelCounter() override;
  KernelCounter(const KernelCounter&) = delete;
  KernelCounter& operator=(const KernelCounter&) = delete;

  std::map<std::string, KernelCounts> counts() const;
  KernelCounts total() const;
  /// The lines of a kernel that move more sectors or take more passes than they must.
  std::vector<LineTraffic> wasteful_lines(const std::string& kernel) const;

 private:
  struct Kernel {
    KernelCounts counts;
    TrafficCounter traffic;
    std::unordered_set<uintptr_t> read, written;  // sectors, of the launch under way
  };
  void kernel_begins(const char* name, dim3 grid, dim3 block) override;
  void launch_begins(uint32_t) override {}
  void block_begins(Block&) override {}
  void block_ends(Block& b) override { current_->traffic.block_ends(b); }
  void barrier(Block&) override { ++current_->counts.barriers; }
  void access(uintptr_t, int bytes, Access, void* pc, Location) override;
  void note_distinct(uintptr_t address, int bytes, Access);

  std::map<std::string, Kernel> kernels_;
  Kernel* current_ = nullptr;
  BufferRange range_;
  bool inside_ = false;
};

}  // namespace dv::emu
