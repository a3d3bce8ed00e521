// What a subject of the CUDA engine is tried with: a planted kernel fault, the race checker, or
// both. The checker's findings are told apart from other failures by their first words.
#pragma once

#include "cuda/kernels/planted_faults.h"

namespace kvconform {

struct KernelTrial {
  cuda::PlantedFault fault = cuda::PlantedFault::none;
  bool watched = false;  ///< every memory access of every kernel
};

/// The happens-before checker of cuda/emulator, with the emulator's own demand that all threads of
/// a block come to the same barriers. Named like a property where it is what catches a fault.
inline constexpr const char* kRaceChecker = "race checker";

}  // namespace kvconform
