// Which fault is in force. Each OS thread has its own, so that several can be tried at once; the
// fibers of a launch stay on theirs. Kernels ask often: the watch on their memory must not see it.
#include "cuda/kernels/planted_faults.h"

#include "cuda/emulator/scheduler.h"

namespace kvconform::cuda {
namespace {

thread_local PlantedFault in_force = PlantedFault::none;

}  // namespace

EMU_UNWATCHED void plant(PlantedFault fault) {
  in_force = fault;
}

EMU_UNWATCHED bool is_planted(PlantedFault fault) {
  return in_force == fault;
}

}  // namespace kvconform::cuda
