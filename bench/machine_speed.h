// What this machine can do at best, measured in the same run as everything that is compared with
// it: bytes copied, and multiplications with additions in registers, both by one thread of this
// build (its instruction set, its compiler flags).
#pragma once

namespace kvconform::bench {

struct MachineSpeed {
  double copied_bytes_per_second = 0;  ///< read and written ones, of arrays beyond the caches
  double multiply_adds_per_second = 0;
};

/// The best of a few tries; about half a second.
MachineSpeed measure_machine();

/// CPU time of this thread: what others on the machine do shows least.
double thread_seconds();

}  // namespace kvconform::bench
