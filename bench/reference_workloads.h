// What is timed of the CPU reference: its kernels, and calls of whole models.
#pragma once

#include "bench/workload.h"

namespace kvconform::bench {

void add_reference_kernels(Workloads& workloads);
void add_reference_calls(Workloads& workloads);

}  // namespace kvconform::bench
