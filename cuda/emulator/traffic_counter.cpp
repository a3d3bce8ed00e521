// Groups the lanes of a warp into requests and counts sectors and bank
// wavefronts.
#include "cuda/emulator/traffic_counter.h"

#include <algorithm>
#include <bit>
#include <set>

namespace dv::emu {
namespace {

uint64_t sectors(const uintptr_t* address, uint32_t lanes, int bytes) {
  std::set<uintptr_t> touched;
  for (; lanes; lanes &= lanes - 1) {
    const uintptr_t a = address[std::countr_zero(lanes)];
    for (uintptr_t s = a / 32; s <= (a + uintptr_t(bytes) - 1) / 32; ++s) touched.insert(s);
  }
  return touched.size();
}
// Different words in one bank need one pass each; the same word is broadcast.
uint64_t bank_passes(const uintptr_t* address, uint32_t lanes, int bytes) {
  std::set<uintptr_t> words;
  for (; lanes; lanes &= lanes - 1) {
    const uintptr_t a = address[std::countr_zero(lanes)];
    for (uintptr_t w = a / 4; w <= (a + uintptr_t(bytes) - 1) / 4; ++w) words.insert(w);
  }
  int in_bank[32] = {}, most = 0;
  for (uintptr_t w : words) most = std::max(most, ++in_bank[w % 32]);
  return uint64_t(most);
}

}  // namespace

void TrafficCounter::finish(LineTraffic& line, const Request& r) {
  ++line.requests;
  if (!line.shared) {
    line.units += sectors(r.address, r.lanes, line.bytes);
    line.ideal += uint64_t(std::popcount(r.lanes) * line.bytes + 31) / 32;
    return;
  }
  const int together = line.bytes == 16 ? 8 : line.bytes == 8 ? 16 : 32;
  for (int first = 0; first < 32; first += together) {
    const uint32_t group = r.lanes & uint32_t(((uint64_t(1) << together) - 1) << first);
    if (!group) continue;
    line.units += bank_passes(r.address, group, line.bytes);
    line.ideal += 1;
  }
}

void TrafficCounter::access(uintptr_t address, int bytes, Access kind, const Site& site) {
  if (kind == Access::async_copy_done || kind == Access::atomic) return;
  const Fiber& f = me();
  const auto low = reinterpret_cast<uintptr_t>(f.block->shared);
  const bool shared = address >= low && address < low + f.block->shared_bytes;
  if (!shared) {
    if (!find_buffer(address, range_) || address >= range_.end) return;
    const BufferRange* r = &range_;
    BufferTraffic& b = buffers_[r->name];
    (kind == Access::write ? b.written : b.read) += uint64_t(bytes);
    auto& seen = touched_[r->name];
    seen.resize((r->end - r->begin + 1) / 2);
    for (int i = 0; i < (bytes + 1) / 2 && kind != Access::write; ++i) {
      auto bit = seen[(address - r->begin) / 2 + size_t(i)];
      if (!bit) b.distinct_read += 2;
      bit = true;
    }
  }
  const Key key{site, int(kind), bytes};
  LineTraffic& line = lines_[key];
  line.shared = shared;
  line.kind = kind;
  line.bytes = bytes;
  auto& open = open_[{key, f.warp}];
  size_t k = 0;
  while (k < open.size() && (open[k].lanes >> f.lane & 1))
    ++k;  // this lane's next request of that line
  if (k == open.size()) open.emplace_back();
  open[k].lanes |= 1u << f.lane;
  open[k].address[f.lane] = address;
  if (open[k].lanes != f.warp->alive) return;
  finish(line, open[k]);
  open.erase(open.begin() + long(k));
}

void TrafficCounter::block_ends(const Block& b) {
  for (auto it = open_.begin(); it != open_.end();) {
    const Warp* w = it->first.second;
    const bool ours = w >= b.warps.data() && w < b.warps.data() + b.warps.size();
    if (ours)
      for (const Request& r : it->second) finish(lines_[it->first.first], r);
    it = ours ? open_.erase(it) : std::next(it);
  }
}

std::vector<LineTraffic> TrafficCounter::lines(bool named) const {
  std::vector<LineTraffic> all;
  for (const auto& [key, line] : lines_) {
    all.push_back(line);
    if (named) all.back().where = name_of(key.site);
  }
  return all;
}

BufferTraffic TrafficCounter::buffer(const std::string& name) const {
  const auto it = buffers_.find(name);
  return it == buffers_.end() ? BufferTraffic{} : it->second;
}

}  // namespace dv::emu
