// Emulated device memory and the list of its buffers: which one an address belongs to. Memory is
// filled with NaN bytes; AddressSanitizer guards the ends of every allocation and named part.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/device/memory.h"
#include "cuda/emulator/access_observer.h"
#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace dv::emu {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<uintptr_t, BufferRange> ranges;  // by begin; parts of an allocation replace the whole
  std::map<uintptr_t, size_t> allocations;
};
Registry& registry() {
  static Registry& r = *new Registry;  // never destroyed: models kept in statics release later
  return r;
}

}  // namespace

int& current_device() {
  thread_local int device = 0;
  return device;
}

void register_buffer(const void* p, size_t bytes, const char* name, int device) {
  const auto begin = reinterpret_cast<uintptr_t>(p);
  std::lock_guard lock(registry().mutex);
  registry().ranges[begin] = {begin, begin + bytes, name, device};
}
void unregister_buffers(const void* p, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(p);
  std::lock_guard lock(registry().mutex);
  auto& ranges = registry().ranges;
  ranges.erase(ranges.lower_bound(begin), ranges.lower_bound(begin + bytes));
}
bool find_buffer(uintptr_t address, BufferRange& found) {
  if (address >= found.begin && address < found.end) return true;  // the one found last time
  std::lock_guard lock(registry().mutex);
  auto& ranges = registry().ranges;
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return false;
  const BufferRange& range = std::prev(next)->second;
  constexpr uintptr_t gap = 256;  // what follows a buffer closely was meant to be it
  if (address >= range.end + gap) return false;
  found = range;
  return true;
}

}  // namespace dv::emu

namespace dv::inline DV_MEMORY {
namespace {

thread_local uint64_t allocations = 0, bytes_asked = 0;

size_t padded(size_t bytes) {
  return (bytes + 511) / 256 * 256;  // at least one byte of padding to find who leaves the end
}

}  // namespace

int device_count() {
  return 16;
}
void use_device(int device) {
  emu::current_device() = device;
}

void* allocate(size_t bytes, const char* name) {
  ++allocations;
  bytes_asked += bytes;
  void* p = std::aligned_alloc(256, padded(bytes));
  if (!p) throw DeviceError(std::string("no memory for ") + name);
  memset(p, 0xff, padded(bytes));
#ifdef EMU_ASAN
  __asan_poison_memory_region(static_cast<char*>(p) + bytes, padded(bytes) - bytes);
#endif
  emu::register_buffer(p, bytes, name, emu::current_device());
  std::lock_guard lock(emu::registry().mutex);
  emu::registry().allocations[reinterpret_cast<uintptr_t>(p)] = padded(bytes);
  return p;
}

void release(void* p) {
  if (!p) return;
  size_t bytes = 0;
  {
    std::lock_guard lock(emu::registry().mutex);
    auto found = emu::registry().allocations.find(reinterpret_cast<uintptr_t>(p));
    bytes = found->second;
    emu::registry().allocations.erase(found);
  }
  emu::unregister_buffers(p, bytes);
#ifdef EMU_ASAN
  __asan_unpoison_memory_region(p, bytes);
#endif
  std::free(p);
}

void name_part(const void* begin, size_t bytes, const char* name) {
  emu::register_buffer(begin, bytes, name, emu::current_device());
#ifdef EMU_ASAN  // the padding up to the next part
  const size_t used = bytes, whole = (bytes + 255) / 256 * 256;
  __asan_unpoison_memory_region(begin, used);
  __asan_poison_memory_region(static_cast<const char*>(begin) + used, whole - used);
#endif
}

void upload(void* to, const void* host, size_t bytes) {
  if (bytes) memcpy(to, host, bytes);
}
void download(void* host, const void* from, size_t bytes) {
  if (bytes) memcpy(host, from, bytes);
}
void copy(void* to, const void* from, size_t bytes) {
  if (bytes) memcpy(to, from, bytes);
}
void fill(void* p, int byte, size_t bytes) {
  if (bytes) memset(p, byte, bytes);
}
void synchronize() {}  // launches have run when they return
uint64_t allocation_count() {
  return allocations;
}
uint64_t allocated_bytes() {
  return bytes_asked;
}

}  // namespace dv::inline DV_MEMORY
