// What a kernel asks of the memory system, per source line and per buffer:
// exact and repeatable. Global lines: 32-byte sectors a warp's request touches, against the fewest
// possible. Shared lines: wavefronts (passes through the 32 banks), against the fewest possible.
// Buffers: bytes read against distinct bytes read. Bank rule: 16-byte accesses are served 8 lanes
// at a time, 8-byte 16 lanes, smaller ones all 32.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cuda/emulator/access_observer.h"

namespace dv::emu {

struct LineTraffic {
  std::string where;  // file:line
  bool shared = false;
  Access kind = Access::read;
  int bytes = 0;                                // per lane
  uint64_t requests = 0, units = 0, ideal = 0;  // units: sectors or wavefronts
};
struct BufferTraffic {
  uint64_t read = 0, distinct_read = 0, written = 0;
};

class TrafficCounter {
 public:
  void access(uintptr_t address, int bytes, Access, const Site&);
  void block_ends(const Block&);  // requests whose remaining lanes never came
  std::vector<LineTraffic> lines(bool named = true) const;  // naming one takes milliseconds
  BufferTraffic buffer(const std::string& name) const;

 private:
  struct Request {
    uint32_t lanes = 0;
    uintptr_t address[32] = {};
  };
  struct Key {
    Site site;
    int kind, bytes;
    bool operator<(const Key& o) const {
      return std::tie(site, kind, bytes) < std::tie(o.site, o.kind, o.bytes);
    }
  };
  void finish(LineTraffic&, const Request&);
  std::map<Key, LineTraffic> lines_;
  std::map<std::pair<Key, const Warp*>, std::vector<Request>> open_;
  std::map<std::string, BufferTraffic> buffers_;
  std::map<std::string, std::vector<bool>> touched_;
  BufferRange range_;
};

}  // namespace dv::emu
