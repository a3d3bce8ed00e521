// The observer that feeds race checker and traffic counter, the names of source
// lines, and the functions that -fsanitize=thread makes a kernel file call. Never link libtsan
// beside it.
#include "cuda/emulator/checked_run.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

namespace dv::emu {
namespace {

thread_local bool inside_checker = false;

std::string file_and_line(const char* file, int line) {
  const char* slash = strrchr(file, '/');
  return std::string(slash ? slash + 1 : file) + ":" + std::to_string(line);
}
// Asks addr2line for the innermost frame that is kernel code, not this emulator or the device
// layer.
std::string ask_addr2line(void* pc) {
  Dl_info info{};
  if (!dladdr(pc, &info)) return "?";
  const auto offset =
      reinterpret_cast<uintptr_t>(pc) - reinterpret_cast<uintptr_t>(info.dli_fbase) - 1;
  char command[512], text[1024];
  snprintf(command, sizeof command, "addr2line -i -e '%s' %zx 2>/dev/null", info.dli_fname, offset);
  std::string best = "?";
  FILE* pipe = popen(command, "r");
  while (pipe && fgets(text, sizeof text, pipe)) {
    text[strcspn(text, " \n")] = 0;
    const char* slash = strrchr(text, '/');
    const bool device_layer = strstr(text, "/device/") || strstr(text, "/emulator/");
    if (best == "?" || !device_layer) best = slash ? slash + 1 : text;
    if (!device_layer) break;
  }
  if (pipe) pclose(pipe);
  return best;
}

}  // namespace

CheckedRun::CheckedRun(bool count_traffic) : count_traffic_(count_traffic) {
  observer = this;
}
CheckedRun::~CheckedRun() {
  observer = nullptr;
}

std::string name_of(const Site& site) {
  if (site.where.file) return file_and_line(site.where.file, site.where.line);
  thread_local std::unordered_map<void*, std::string> names;
  std::string& name = names[site.pc];
  if (name.empty()) name = ask_addr2line(site.pc);
  return name;
}

void CheckedRun::access(uintptr_t address, int bytes, Access kind, void* pc, Location where) {
  if (inside_checker || !worker || worker->current == &worker->os_thread) return;
  const Fiber& f = me();
  const auto stack = reinterpret_cast<uintptr_t>(f.stack.base);
  if (address - stack < f.stack.size) return;  // local variables
  inside_checker = true;
  ++accesses_;
  const Site site{where.file ? nullptr : pc, where};
  races_.access(address, bytes, kind, site);
  if (count_traffic_) traffic_.access(address, bytes, kind, site);
  inside_checker = false;
}

std::vector<LineTraffic> CheckedRun::wasteful_lines() const {
  auto all = lines();
  std::erase_if(all, [](const LineTraffic& l) { return l.units <= l.ideal; });
  return all;
}

void hook(void* p, int bytes, Access kind, void* pc) {
  if (observer && worker) observer->access(reinterpret_cast<uintptr_t>(p), bytes, kind, pc, {});
}

}  // namespace dv::emu

#define HOOK(name, bytes, kind)                                                  \
  extern "C" void name(void* p) {                                                \
    dv::emu::hook(p, bytes, dv::emu::Access::kind, __builtin_return_address(0)); \
  }
#define HOOKS(bytes)                              \
  HOOK(__tsan_read##bytes, bytes, read)           \
  HOOK(__tsan_write##bytes, bytes, write)         \
  HOOK(__tsan_unaligned_read##bytes, bytes, read) \
  HOOK(__tsan_unaligned_write##bytes, bytes, write)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, unsigned long n) {
  dv::emu::hook(p, int(n), dv::emu::Access::read, __builtin_return_address(0));
}
void __tsan_write_range(void* p, unsigned long n) {
  dv::emu::hook(p, int(n), dv::emu::Access::write, __builtin_return_address(0));
}
void* __tsan_memcpy(void* d, const void* s, size_t n) {
  dv::emu::hook(const_cast<void*>(s), int(n), dv::emu::Access::read, __builtin_return_address(0));
  dv::emu::hook(d, int(n), dv::emu::Access::write, __builtin_return_address(0));
  return memcpy(d, s, n);
}
void* __tsan_memset(void* d, int c, size_t n) {
  dv::emu::hook(d, int(n), dv::emu::Access::write, __builtin_return_address(0));
  return memset(d, c, n);
}
void* __tsan_memmove(void* d, const void* s, size_t n) {
  return memmove(d, s, n);
}
void __tsan_atomic_thread_fence(int) {
  __sync_synchronize();
}
unsigned __tsan_atomic32_fetch_add(volatile unsigned* p, unsigned v, int) {
  return __atomic_fetch_add(p, v, 5);
}
unsigned __tsan_atomic32_load(const volatile unsigned* p, int) {
  return __atomic_load_n(p, 5);
}
int __tsan_atomic32_compare_exchange_weak(volatile unsigned* p, unsigned* e, unsigned v, int, int) {
  return __atomic_compare_exchange_n(p, e, v, false, 5, 5);
}
int __tsan_atomic32_compare_exchange_strong(volatile unsigned* p, unsigned* e, unsigned v, int,
                                            int) {
  return __atomic_compare_exchange_n(p, e, v, false, 5, 5);
}
}
