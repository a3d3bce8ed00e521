// The seam between kernels running on fibers and whoever watches their memory
// accesses. Kernel files compiled with -fsanitize=thread and linked without libtsan call
// __tsan_readN/__tsan_writeN; access_hooks.cpp turns those calls, and the explicit ones of
// device_emu.h, into `access`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "cuda/emulator/scheduler.h"

namespace dv::emu {

enum class Access { read, write, async_copy_done, atomic };

// Where in the source an access stands: a location where the device layer knows it, else the
// address of the code. Named only when somebody reads a report: asking for a name takes
// milliseconds.
struct Site {
  void* pc = nullptr;
  Location where;
  bool operator<(const Site& o) const {
    return std::tie(pc, where.file, where.line) < std::tie(o.pc, o.where.file, o.where.line);
  }
};
std::string name_of(const Site&);  // file:line

struct Observer {
  virtual ~Observer() = default;
  virtual void kernel_begins(const char*, dim3 /*grid*/, dim3 /*block*/) {}  // before launch_begins
  virtual void launch_begins(uint32_t first_serial) = 0;
  virtual void block_begins(Block&) = 0;
  virtual void block_ends(Block&) = 0;
  virtual void barrier(Block&) {}  // a block's threads have all come to a __syncthreads
  virtual void access(uintptr_t address, int bytes, Access kind, void* pc, Location where) = 0;
};
extern constinit thread_local Observer* observer;  // null: nobody watches

inline void observe(const void* p, int bytes, Access kind, Location where) {
  if (observer && worker) {
    observer->access(reinterpret_cast<uintptr_t>(p), bytes, kind, __builtin_return_address(0),
                     where);
  }
}

// Device buffers announce themselves, so that reports can name them and the device they are on.
struct BufferRange {
  uintptr_t begin = 0, end = 0;
  std::string name;
  int device = 0;
};
void register_buffer(const void* p, size_t bytes, const char* name, int device);
void unregister_buffers(const void* p, size_t bytes);  // all that begin inside
// The innermost range that holds or directly precedes the address, if any.
bool find_buffer(uintptr_t address, BufferRange& found);
int& current_device();  // of this OS thread

}  // namespace dv::emu
