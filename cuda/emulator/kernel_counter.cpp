// Sorts what the traffic counter sees by kernel, and adds launches, barriers and distinct sectors.
#include "cuda/emulator/kernel_counter.h"

#include <algorithm>

namespace dv::emu {
namespace {

constexpr uintptr_t kSector = 32;

void add_line(KernelCounts& counts, const LineTraffic& line) {
  const bool write = line.kind == Access::write;
  if (line.shared) {
    counts.shared_passes += line.units;
    counts.shared_passes_ideal += line.ideal;
    return;
  }
  (write ? counts.write_requests : counts.read_requests) += line.requests;
  (write ? counts.write_sectors : counts.read_sectors) += line.units;
  (write ? counts.write_sectors_ideal : counts.read_sectors_ideal) += line.ideal;
}

}  // namespace

KernelCounts& KernelCounts::operator+=(const KernelCounts& o) {
  launches += o.launches;
  blocks += o.blocks;
  threads += o.threads;
  barriers += o.barriers;
  read_requests += o.read_requests;
  read_sectors += o.read_sectors;
  read_sectors_ideal += o.read_sectors_ideal;
  write_requests += o.write_requests;
  write_sectors += o.write_sectors;
  write_sectors_ideal += o.write_sectors_ideal;
  distinct_read_sectors += o.distinct_read_sectors;
  distinct_write_sectors += o.distinct_write_sectors;
  shared_passes += o.shared_passes;
  shared_passes_ideal += o.shared_passes_ideal;
  return *this;
}

KernelCounter::KernelCounter() {
  observer = this;
}
KernelCounter::~KernelCounter() {
  observer = nullptr;
}

void KernelCounter::kernel_begins(const char* name, dim3 grid, dim3 block) {
  current_ = &kernels_[name];
  ++current_->counts.launches;
  current_->counts.blocks += grid.count();
  current_->counts.threads += grid.count() * block.count();
  current_->read.clear();
  current_->written.clear();
}

void KernelCounter::access(uintptr_t address, int bytes, Access kind, void* pc, Location where) {
  if (inside_ || !worker || worker->current == &worker->os_thread) return;
  const Fiber& f = me();
  if (address - reinterpret_cast<uintptr_t>(f.stack.base) < f.stack.size)
    return;        // local variables
  inside_ = true;  // our own templates may be instrumented, too
  current_->traffic.access(address, bytes, kind, {where.file ? nullptr : pc, where});
  const auto low = reinterpret_cast<uintptr_t>(f.block->shared);
  if (address - low >= f.block->shared_bytes) note_distinct(address, bytes, kind);
  inside_ = false;
}

void KernelCounter::note_distinct(uintptr_t address, int bytes, Access kind) {
  if (kind != Access::read && kind != Access::write) return;
  if (!find_buffer(address, range_) || address >= range_.end) return;
  auto& seen = kind == Access::write ? current_->written : current_->read;
  auto& count = kind == Access::write ? current_->counts.distinct_write_sectors
                                      : current_->counts.distinct_read_sectors;
  for (uintptr_t s = address / kSector; s <= (address + uintptr_t(bytes) - 1) / kSector; ++s)
    count += seen.insert(s).second;
}

std::map<std::string, KernelCounts> KernelCounter::counts() const {
  std::map<std::string, KernelCounts> all;
  for (const auto& [name, kernel] : kernels_) {
    KernelCounts& counts = all[name] = kernel.counts;
    for (const LineTraffic& line : kernel.traffic.lines(false)) add_line(counts, line);
  }
  return all;
}

KernelCounts KernelCounter::total() const {
  KernelCounts sum;
  for (const auto& [name, counts] : counts()) sum += counts;
  return sum;
}

std::vector<LineTraffic> KernelCounter::wasteful_lines(const std::string& kernel) const {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) return {};
  auto lines = found->second.traffic.lines();
  std::erase_if(lines, [](const LineTraffic& l) { return l.units <= l.ideal; });
  return lines;
}

}  // namespace dv::emu
