// A stack and the switch to it: what one emulated CUDA thread runs on.
// A switch saves the callee-saved registers and nothing else (7 to 9 ns). x86-64 and aarch64 have
// their own few lines of assembly in fiber.cpp; EMU_PORTABLE_FIBERS selects ucontext (20 times
// slower) elsewhere.
#pragma once
#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(EMU_PORTABLE_FIBERS)
#define EMU_PORTABLE_FIBERS 1
#endif

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

namespace dv::emu {

struct FiberStack {
  void* base = nullptr;
  size_t size = 0;
  void* context = nullptr;    // saved stack pointer, or ucontext_t*
  void* asan_fake = nullptr;  // AddressSanitizer's view of this stack while it is suspended
};

using FiberEntry = void (*)();

void create_stack(FiberStack&, size_t size, FiberEntry entry);
void destroy_stack(FiberStack&);
// Saves the running context in `from` and continues `to`. Both belong to the same OS thread.
void switch_stack(FiberStack& from, FiberStack& to);
void announce_fresh_stack();  // first statement of a FiberEntry

}  // namespace dv::emu
