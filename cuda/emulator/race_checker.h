// Happens-before check of shared memory and registered buffers, per 2-byte
// granule. Two accesses of one location, at least one a write, must be ordered by a __syncthreads,
// a full-warp
// __syncwarp, a grid_sync or the end of a launch; two atomics need no order. Shuffles and fences
// order nothing. Deterministic: one fifo run finds a missing barrier whatever the values are. Also
// reports reads of shared memory nobody wrote, accesses past the end of a buffer, and accesses to
// the memory of another device.
#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/emulator/access_observer.h"

namespace dv::emu {

class RaceChecker {
 public:
  void launch_begins(uint32_t first_serial) {
    launch_ = first_serial;
    recent_ = {};  // buffers come and go between launches
    block_ = nullptr;
  }
  void block_begins(const Block&);
  void access(uintptr_t address, int bytes, Access, const Site&);
  const std::vector<std::string>& reports() const { return reports_; }

 private:
  static constexpr int32_t several = -2;
  struct Event {
    uint32_t serial = 0, grid_epoch = 0, block_epoch = 0, warp_epoch = 0;
    int32_t thread = 0, warp = 0;
    bool several_blocks = false, atomic = false;
  };
  struct Granule {
    Event write, read;
  };
  using Granules = std::vector<Granule>;
  struct Recent {
    uintptr_t begin = 0, end = 0;
    Granules* cells = nullptr;
    int device = 0;
  };
  Granules& cells_of_block(const Block*);
  const Recent* buffer_at(uintptr_t address);
  bool ordered(const Event& earlier, const Fiber&) const;
  bool check(Granule&, const Fiber&, bool write, bool atomic, bool shared, uintptr_t, const Site&);
  void remember_read(Event&, const Fiber&, bool atomic) const;
  void report(const char* what, uintptr_t, bool shared, const Fiber&, const Event*, const Site&);

  uint32_t launch_ = 0;
  std::unordered_map<const Block*, Granules> shared_;
  std::unordered_map<uintptr_t, Granules> buffers_;  // by begin address
  // Where the last accesses went: a kernel takes turns among a few buffers and one block.
  std::array<Recent, 8> recent_;
  size_t next_recent_ = 0;
  const Block* block_ = nullptr;
  Granules* block_cells_ = nullptr;
  std::vector<std::string> reports_;
};

}  // namespace dv::emu
