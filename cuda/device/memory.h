// Device memory for host code, the same on both machines: no CUDA header, no template. Every call
// is about the device that `use_device` named on this thread. Fresh memory holds 0xFF bytes: NaN.
//
//   dv::use_device(1);
//   auto* x = static_cast<float*>(dv::allocate(bytes, "weights"));
//   dv::upload(x, host, bytes);
//
// A failing device throws DeviceError. Nothing is computed after one: a broken CUDA context stays
// broken for the rest of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cuda/device/machine.h"

namespace dv::inline DV_MEMORY {

struct DeviceError : std::runtime_error {
  using runtime_error::runtime_error;
};

int device_count();  ///< emulated devices: as many as anybody could want
void use_device(int device);

void* allocate(std::size_t bytes, const char* name);
void release(void* memory);
/// Announces a part of an allocation under a name of its own: the emulated side reports accesses
/// that leave it.
void name_part(const void* begin, std::size_t bytes, const char* name);

void upload(void* to, const void* host, std::size_t bytes);
void download(void* host, const void* from, std::size_t bytes);
void copy(void* to, const void* from, std::size_t bytes);  ///< also between devices
void fill(void* memory, int byte, std::size_t bytes);

/// Waits for everything launched so far and throws what went wrong in it.
void synchronize();

/// Allocations of this thread so far, and the bytes asked for: a step makes none.
std::uint64_t allocation_count();
std::uint64_t allocated_bytes();

}  // namespace dv::inline DV_MEMORY
