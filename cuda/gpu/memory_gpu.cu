// Device memory of real GPUs, and the check of what went wrong in kernels.
#include <cuda_runtime.h>

#include <string>

#include "cuda/device/memory.h"

namespace dv::inline DV_MEMORY {
namespace {

thread_local std::uint64_t allocations = 0, bytes_asked = 0;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw DeviceError(std::string(what) + ": " + cudaGetErrorString(error));
}

int device_of(const void* p) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, p), "pointer");
  return attributes.device;
}

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void use_device(int device) {
  check(cudaSetDevice(device), "use device");
}

void* allocate(std::size_t bytes, const char* name) {
  ++allocations;
  bytes_asked += bytes;
  void* p = nullptr;
  check(cudaMalloc(&p, bytes ? bytes : 1), name);
  check(cudaMemset(p, 0xff, bytes), name);
  return p;
}

void release(void* p) {
  cudaFree(p);
}

void name_part(const void*, std::size_t, const char*) {}

void upload(void* to, const void* host, std::size_t bytes) {
  check(cudaMemcpy(to, host, bytes, cudaMemcpyHostToDevice), "upload");
}

void download(void* host, const void* from, std::size_t bytes) {
  check(cudaMemcpy(host, from, bytes, cudaMemcpyDeviceToHost), "download");
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const bool between = device_of(to) != device_of(from);  // streams of devices order nothing
  if (between) check(cudaDeviceSynchronize(), "before a copy between devices");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copy");
  if (between) check(cudaDeviceSynchronize(), "copy between devices");
}

void fill(void* p, int byte, std::size_t bytes) {
  check(cudaMemset(p, byte, bytes), "fill");
}

void synchronize() {
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "kernel");
}

std::uint64_t allocation_count() {
  return allocations;
}
std::uint64_t allocated_bytes() {
  return bytes_asked;
}

}  // namespace dv::inline DV_MEMORY
