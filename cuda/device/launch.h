// The shape of a launch: its name (reports and profiles show it), blocks, threads of a block,
// bytes of dv::shared. Included by device_gpu.h and device_emu.h, after dim3 is known.
#pragma once

#include <cstddef>

#include "cuda/device/machine.h"

namespace dv::inline DV_MACHINE {

struct Launch {
  const char* name;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  bool cooperative = false;  ///< all blocks resident at once: grid_sync is allowed
};

}  // namespace dv::inline DV_MACHINE
