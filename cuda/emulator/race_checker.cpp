// Vector-clock-free happens-before: epochs suffice, because GPU barriers are
// total.
#include "cuda/emulator/race_checker.h"

namespace dv::emu {

void RaceChecker::block_begins(const Block& b) {
  cells_of_block(&b).assign((b.shared_bytes + 1) / 2, {});
}

RaceChecker::Granules& RaceChecker::cells_of_block(const Block* block) {
  if (block != block_) {
    block_ = block;
    block_cells_ = &shared_[block];
  }
  return *block_cells_;
}

/// The buffer that holds or closely precedes an address, if any.
const RaceChecker::Recent* RaceChecker::buffer_at(uintptr_t address) {
  for (const Recent& r : recent_)
    if (address - r.begin < r.end - r.begin) return &r;
  BufferRange range;
  if (!find_buffer(address, range)) return nullptr;
  Granules& cells = buffers_[range.begin];
  const size_t needed = (range.end - range.begin + 1) / 2;
  if (cells.size() < needed) cells.resize(needed);
  Recent& r = recent_[next_recent_++ % recent_.size()];
  r = {range.begin, range.end, &cells, range.device};
  return &r;
}

bool RaceChecker::ordered(const Event& e, const Fiber& f) const {
  if (e.serial < launch_) return true;  // never, or in an earlier launch
  if (e.serial != f.block->serial || e.several_blocks) return e.grid_epoch < f.grid_epoch;
  if (e.block_epoch < f.block_epoch || e.thread == f.linear) return true;
  return e.warp == f.linear / 32 && e.warp_epoch < f.warp_epoch;
}

void RaceChecker::remember_read(Event& e, const Fiber& f, bool atomic) const {
  const int warp = f.linear / 32;
  if (ordered(e, f)) {
    e = {f.block->serial, f.grid_epoch, f.block_epoch, f.warp_epoch, f.linear, warp, false, atomic};
    return;
  }
  e.several_blocks |= e.serial != f.block->serial;
  if (e.thread != f.linear) e.thread = several;
  if (e.warp != warp) e.warp = several;
  e.serial = f.block->serial;
  e.grid_epoch = f.grid_epoch;
  e.block_epoch = f.block_epoch;
  e.warp_epoch = f.warp_epoch;
  e.atomic &= atomic;
}

void RaceChecker::report(const char* what, uintptr_t address, bool shared, const Fiber& f,
                         const Event* other, const Site& site) {
  if (reports_.size() >= 20) return;
  BufferRange range;
  if (!shared) find_buffer(address, range);
  const std::string name = shared ? "shared" : range.name;
  const uintptr_t begin = shared ? reinterpret_cast<uintptr_t>(f.block->shared) : range.begin;
  std::string text = std::string(what) + " at " + name + "+" + std::to_string(address - begin) +
                     " by block(" + std::to_string(f.block->index.x) + "," +
                     std::to_string(f.block->index.y) + ") thread " + std::to_string(f.linear);
  if (other)
    text += other->thread == several ? " against several threads"
                                     : " against thread " + std::to_string(other->thread);
  reports_.push_back(text + ", " + name_of(site));
}

bool RaceChecker::check(Granule& g, const Fiber& f, bool write, bool atomic, bool shared,
                        uintptr_t address, const Site& site) {
  bool clean = true;
  const auto complain = [&](const char* what, const Event* other) {
    report(what, address, shared, f, other, site);
    clean = false;
  };
  if (!ordered(g.write, f) && !(atomic && g.write.atomic))
    complain(write ? "write/write race" : "write/read race", &g.write);
  if (write && !ordered(g.read, f) && !(atomic && g.read.atomic))
    complain("read/write race", &g.read);
  if (!write && shared && g.write.serial != f.block->serial)
    complain("uninitialised read", nullptr);
  if (write)
    g.write = {f.block->serial, f.grid_epoch,  f.block_epoch, f.warp_epoch,
               f.linear,        f.linear / 32, false,         atomic};
  else
    remember_read(g.read, f, atomic);
  return clean;
}

void RaceChecker::access(uintptr_t address, int bytes, Access kind, const Site& site) {
  const Fiber& f = me();
  const bool atomic = kind == Access::atomic;
  const bool write = atomic || kind == Access::write || kind == Access::async_copy_done;
  const auto low = reinterpret_cast<uintptr_t>(f.block->shared);
  const bool shared = address >= low && address < low + f.block->shared_bytes;
  const Recent* buffer = shared ? nullptr : buffer_at(address);
  if (!shared && !buffer) return;  // arguments: private to the thread
  if (!shared && address + uintptr_t(bytes) > buffer->end) {
    return report("access past the end", address, false, f, nullptr, site);
  }
  if (!shared && buffer->device != current_device()) {
    return report("access to another device's memory", address, false, f, nullptr, site);
  }
  auto& cells = shared ? cells_of_block(f.block) : *buffer->cells;
  const size_t first = (address - (shared ? low : buffer->begin)) / 2;
  for (int i = 0; i < (bytes + 1) / 2; ++i) {
    if (!check(cells[first + size_t(i)], f, write, atomic, shared, address + uintptr_t(2 * i),
               site))
      break;
  }
}

}  // namespace dv::emu
