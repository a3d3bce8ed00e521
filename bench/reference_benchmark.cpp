// What the CPU reference costs, as a Google Benchmark program: kernels, prefill by length, decode
// by context, chunked prefill, sharing, batch. Each result is verified in the run that times it.
//
//   build/bench/reference_benchmark --size smoke --benchmark_filter=decode
#include "bench/benchmark_program.h"
#include "bench/reference_workloads.h"

int main(int argc, char** argv) {
  using namespace kvconform::bench;
  Workloads workloads;
  add_reference_kernels(workloads);
  add_reference_calls(workloads);
  return benchmark_main(argc, argv, workloads, {.engine = "reference"});
}
