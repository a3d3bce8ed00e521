// The primitives on a real GPU (sm_80 and later). The only file with inline PTX.
#pragma once
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <string>

#define DV_GPU 1
#include "cuda/device/launch.h"
#include "cuda/device/memory.h"
#define DV_FN __device__ __forceinline__
#define DV_HOST_FN __host__ __device__ __forceinline__
#define DV_KERNEL(max_threads, min_blocks) \
  __global__ void __launch_bounds__(max_threads, min_blocks)

namespace dv::inline DV_MACHINE {

template <class T>
DV_FN T& shared() {
  extern __shared__ __align__(128) unsigned char dv_shared_bytes[];
  return *reinterpret_cast<T*>(dv_shared_bytes);
}
DV_FN uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// valid == false writes 16 zero bytes and does not touch `global`
DV_FN void cp_async16(void* shared, const void* global, bool valid = true) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;\n" ::"r"(shared_address(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
DV_FN void cp_async_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int groups_left>
DV_FN void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(groups_left) : "memory");
}
DV_FN uint4 ld128(const void* p) {
  return *static_cast<const uint4*>(p);
}
DV_FN void st128(void* p, uint4 v) {
  *static_cast<uint4*>(p) = v;
}
DV_FN void grid_sync() {
  cooperative_groups::this_grid().sync();
}

inline void check_cuda(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw DeviceError(std::string(what) + ": " + cudaGetErrorString(e));
}

template <class... P, class... A>
void launch(void (*kernel)(P...), const Launch& shape, A&&... args) {
  if (shape.shared_bytes > 48 * 1024) {
    check_cuda(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, int(shape.shared_bytes)),
        shape.name);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = cudaStreamPerThread;
  config.attrs = &attribute;
  config.numAttrs = shape.cooperative ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), shape.name);
}

}  // namespace dv::inline DV_MACHINE
