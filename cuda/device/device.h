// One kernel source, two machines. nvcc: every primitive is one instruction or one line of inline
// PTX. g++ and clang++ (`-x c++`): every CUDA thread is a fiber and every primitive checks its
// arguments; no CUDA toolkit is needed. Rules for kernels, most of them enforced when they run:
//   * shared memory through dv::shared<T>() only: one struct a kernel, no `__shared__`, no statics
//   * launches through dv::launch only, never <<<>>>
//   * warp primitives with an explicit mask, outside divergent code; no return before a barrier
//   * one __syncthreads() on a line
//   * fused multiply-add is written fmaf(); everything else is meant to round twice (-fmad=false,
//     -ffp-contract=off)
//   * exp, tanh, rsqrt from device_math.h; no approximate intrinsics
//   * inline PTX in device_gpu.h and nowhere else
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/device/machine.h"

#if defined(__CUDACC__)
#include "cuda/device/device_gpu.h"
#else
#include "cuda/device/device_emu.h"
#endif

#include "cuda/device/device_math.h"
