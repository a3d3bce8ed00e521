// What is counted of the CUDA engine on emulated threads: each kernel by itself, and calls of whole
// models. Counts come from watched kernels (cuda/emulator/kernel_counter.h) and are exact.
#pragma once

#include "bench/workload.h"
#include "cuda/emulator/kernel_counter.h"

namespace kvconform::bench {

void add_cuda_kernels(Workloads& workloads);
void add_cuda_row_kernels(Workloads& workloads);
void add_cuda_elementwise_kernels(Workloads& workloads);
void add_cuda_calls(Workloads& workloads);

/// The counters of counters.h.
Counts counts_of(const dv::emu::KernelCounts& counted);

}  // namespace kvconform::bench
