// CUDA's spellings and the primitives of device.h on emulated threads.
// Included by device.h only. Synchronising calls carry their caller's file and line as hidden
// arguments.
#pragma once
#include <math.h>

#include <bit>
#include <cstdlib>
#include <tuple>

#include "cuda/emulator/access_observer.h"
#include "cuda/emulator/scheduler.h"

#define DV_CPU 1
#include "cuda/device/launch.h"
#define DV_FN inline
#define DV_HOST_FN inline
#define DV_KERNEL(max_threads, min_blocks) void
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// ---------------------------------------------------------------------------- CUDA's built-in
// names
#define threadIdx (::dv::emu::me().thread_index)
#define blockIdx (::dv::emu::me().block->index)
#define blockDim (::dv::emu::worker->block_size)
#define gridDim (::dv::emu::worker->grid)
#define DV_CALLER const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()
#define DV_HERE         \
  ::dv::emu::Location { \
    file_, line_        \
  }

inline void __syncthreads(DV_CALLER) {
  dv::emu::block_barrier(DV_HERE);
}
inline int __syncthreads_or(int p, DV_CALLER) {
  dv::emu::block_barrier(DV_HERE, p);
  return dv::emu::me().vote & 1;
}
inline int __syncthreads_and(int p, DV_CALLER) {
  dv::emu::block_barrier(DV_HERE, p);
  return dv::emu::me().vote >> 1 & 1;
}

namespace dv::emu {
enum Operation : uint32_t { op_sync = 1, op_xor, op_down, op_up, op_index, op_ballot };

template <class T>
inline T shuffle(uint32_t mask, T value, int source, uint32_t op, Location where) {
  T result{};
  const Finish exchange = [](Fiber** lanes, uint32_t m) EMU_UNWATCHED {
    for (uint32_t rest = m; rest; rest &= rest - 1) {
      Fiber& f = *lanes[std::countr_zero(rest)];
      if (m >> f.argument & 1)
        memcpy(f.output, lanes[f.argument]->input, sizeof(T));
      else
        memset(f.output, 0xff, sizeof(T));  // reading an absent lane is undefined on the GPU
    }
  };
  warp_collective(mask, op | uint32_t(sizeof(T)) << 16, &value, &result, source, where, exchange);
  return result;
}
inline int inside(int source, int lane, int width) {
  return source >= 0 && source / width == lane / width ? source : lane;
}
}  // namespace dv::emu

inline void __syncwarp(uint32_t mask = 0xffffffffu, DV_CALLER) {
  dv::emu::warp_collective(mask, dv::emu::op_sync, nullptr, nullptr, 0, DV_HERE,
                           [](dv::emu::Fiber** lanes, uint32_t m) EMU_UNWATCHED {
                             if (m != lanes[std::countr_zero(m)]->warp->alive) return;
                             for (; m; m &= m - 1) ++lanes[std::countr_zero(m)]->warp_epoch;
                           });
}
template <class T>
inline T __shfl_xor_sync(uint32_t mask, T v, int x, int width = 32, DV_CALLER) {
  const int lane = dv::emu::me().lane;
  return dv::emu::shuffle(mask, v, dv::emu::inside(lane ^ x, lane, width), dv::emu::op_xor,
                          DV_HERE);
}
template <class T>
inline T __shfl_down_sync(uint32_t mask, T v, int d, int width = 32, DV_CALLER) {
  const int lane = dv::emu::me().lane;
  return dv::emu::shuffle(mask, v, dv::emu::inside(lane + d, lane, width), dv::emu::op_down,
                          DV_HERE);
}
template <class T>
inline T __shfl_up_sync(uint32_t mask, T v, int d, int width = 32, DV_CALLER) {
  const int lane = dv::emu::me().lane;
  return dv::emu::shuffle(mask, v, dv::emu::inside(lane - d, lane, width), dv::emu::op_up, DV_HERE);
}
template <class T>
inline T __shfl_sync(uint32_t mask, T v, int source, int width = 32, DV_CALLER) {
  const int lane = dv::emu::me().lane;
  return dv::emu::shuffle(mask, v, lane / width * width + (source & (width - 1)), dv::emu::op_index,
                          DV_HERE);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, DV_CALLER) {
  uint32_t result = 0;
  const int yes = predicate != 0;
  dv::emu::warp_collective(mask, dv::emu::op_ballot, &yes, &result, 0, DV_HERE,
                           [](dv::emu::Fiber** lanes, uint32_t m) EMU_UNWATCHED {
                             uint32_t votes = 0;
                             for (uint32_t rest = m; rest; rest &= rest - 1) {
                               const int i = std::countr_zero(rest);
                               votes |= uint32_t(*static_cast<const int*>(lanes[i]->input)) << i;
                             }
                             for (; m; m &= m - 1) {
                               *static_cast<uint32_t*>(lanes[std::countr_zero(m)]->output) = votes;
                             }
                           });
  return result;
}
template <class T>
EMU_UNWATCHED inline T atomicAdd(T* p, T v, DV_CALLER) {
  dv::emu::observe(p, sizeof(T), dv::emu::Access::atomic, DV_HERE);
  return std::atomic_ref<T>(*p).fetch_add(v);
}
inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline float __uint_as_float(uint32_t u) {
  return std::bit_cast<float>(u);
}
inline uint32_t __float_as_uint(float f) {
  return std::bit_cast<uint32_t>(f);
}

// --------------------------------------------------------------- primitives of dv
namespace dv::emu {
inline void require_aligned16(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) & 15)
    fail("128-bit access to an address that is not 16-byte aligned");
}
}  // namespace dv::emu

namespace dv::inline DV_MACHINE {

template <class T>
inline T& shared() {
  emu::Block& b = *emu::me().block;
  if (sizeof(T) > b.shared_bytes)
    emu::fail("dv::shared<T>: the launch passed too little shared memory");
  return *reinterpret_cast<T*>(b.shared);
}

inline void cp_async16(void* shared, const void* global, bool valid = true, DV_CALLER) {
  emu::async_copy16(shared, global, valid, DV_HERE);
}
inline void cp_async_commit() {
  emu::async_copy_commit();
}
template <int groups_left>
inline void cp_async_wait() {
  emu::async_copy_wait(groups_left);
}
EMU_UNWATCHED inline uint4 ld128(const void* p, DV_CALLER) {
  emu::require_aligned16(p);
  emu::observe(p, 16, emu::Access::read, DV_HERE);
  uint4 v;
  memcpy(&v, p, 16);
  return v;
}
EMU_UNWATCHED inline void st128(void* p, uint4 v, DV_CALLER) {
  emu::require_aligned16(p);
  emu::observe(p, 16, emu::Access::write, DV_HERE);
  memcpy(p, &v, 16);
}
inline void grid_sync(DV_CALLER) {
  emu::grid_barrier(DV_HERE);
}

template <class... P, class... A>
void launch(void (*kernel)(P...), const Launch& shape, A&&... args) {
  const std::tuple<P...> by_value(static_cast<P>(args)...);
  emu::run_grid(shape.name, shape.grid, shape.block, shape.shared_bytes, shape.cooperative,
                [kernel, &by_value] { std::apply(kernel, by_value); });
}

}  // namespace dv::inline DV_MACHINE
