// Stack allocation and the register switch, per instruction set.
#include "cuda/emulator/fiber.h"

#include <sys/mman.h>

#include <stdexcept>

#ifdef EMU_PORTABLE_FIBERS
#include <ucontext.h>
#else
extern "C" void emu_switch_registers(void** save_sp, void* load_sp);
#endif
#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__) && !defined(EMU_PORTABLE_FIBERS)
asm(R"(
.text
.globl emu_switch_registers
.type emu_switch_registers,@function
emu_switch_registers:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emu_switch_registers,.-emu_switch_registers
)");
#elif defined(__aarch64__) && !defined(EMU_PORTABLE_FIBERS)
asm(R"(
.text
.globl emu_switch_registers
.type emu_switch_registers,%function
emu_switch_registers:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size emu_switch_registers,.-emu_switch_registers
)");
#endif

namespace dv::emu {
namespace {

void prepare_first_entry(FiberStack& s, FiberEntry entry) {
#ifdef EMU_PORTABLE_FIBERS
  auto* u = new ucontext_t{};
  getcontext(u);
  u->uc_stack.ss_sp = s.base;
  u->uc_stack.ss_size = s.size;
  makecontext(u, entry, 0);
  s.context = u;
#else
  auto** sp = reinterpret_cast<void**>(static_cast<char*>(s.base) + s.size);
#if defined(__x86_64__)
  *--sp = nullptr;                         // the entry never returns; also aligns rsp to 8 mod 16
  *--sp = reinterpret_cast<void*>(entry);  // popped by ret
  for (int i = 0; i < 6; ++i) *--sp = nullptr;
#else
  sp -= 20;
  for (int i = 0; i < 20; ++i) sp[i] = nullptr;
  sp[11] = reinterpret_cast<void*>(entry);  // x30
#endif
  s.context = sp;
#endif
}

void raw_switch(FiberStack& from, FiberStack& to) {
#ifdef EMU_PORTABLE_FIBERS
  if (!from.context) from.context = new ucontext_t{};
  swapcontext(static_cast<ucontext_t*>(from.context), static_cast<ucontext_t*>(to.context));
#else
  emu_switch_registers(&from.context, to.context);
#endif
}

#ifdef EMU_ASAN
thread_local const void* os_stack = nullptr;
thread_local size_t os_stack_size = 0;
thread_local bool left_os_stack = false;

// AddressSanitizer tells the bounds of the stack just left; only the OS thread's are news.
void arrive(void* fake) {
  const void* left = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake, &left, &size);
  if (left_os_stack) os_stack = left, os_stack_size = size;
}
#endif

}  // namespace

void create_stack(FiberStack& s, size_t size, FiberEntry entry) {
  s.size = size;
  s.base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  if (s.base == MAP_FAILED) throw std::runtime_error("no memory for a fiber stack");
#ifdef EMU_ASAN
  __asan_unpoison_memory_region(s.base, size);  // a recycled mapping keeps stale shadow poison
#endif
  prepare_first_entry(s, entry);
}

void destroy_stack(FiberStack& s) {
#ifdef EMU_PORTABLE_FIBERS
  delete static_cast<ucontext_t*>(s.context);
#endif
  if (s.base) munmap(s.base, s.size);
  s = {};
}

void announce_fresh_stack() {
#ifdef EMU_ASAN
  arrive(nullptr);
#endif
}

void switch_stack(FiberStack& from, FiberStack& to) {
#ifdef EMU_ASAN
  const bool to_os = to.base == nullptr;
  left_os_stack = from.base == nullptr;
  __sanitizer_start_switch_fiber(&from.asan_fake, to_os ? os_stack : to.base,
                                 to_os ? os_stack_size : to.size);
#endif
  raw_switch(from, to);
#ifdef EMU_ASAN
  arrive(from.asan_fake);
#endif
}

}  // namespace dv::emu
