// What the CUDA engine asks of a GPU, as a Google Benchmark program: sectors, requests, barriers,
// bank conflicts, launches, from emulated threads. Its times are those of the emulation and say
// nothing about a kernel. Each result is verified in the run that is counted.
//
//   build/bench/cuda_benchmark --size smoke --benchmark_filter=kernels
#include "bench/benchmark_program.h"
#include "bench/cuda_workloads.h"

#if PLANTED_FAULTS
// The same program over kernels with planted faults, one of them in force: --plant NAME first.
#include <cstdio>
#include <cstring>

#include "cuda/kernels/planted_faults.h"
#endif

namespace kvconform::bench {

Counts counts_of(const dv::emu::KernelCounts& c) {
  constexpr double sector = 32;
  return {{"bytes_read", sector * double(c.read_sectors)},
          {"bytes_written", sector * double(c.write_sectors)},
          {"bytes_read_once", sector * double(c.distinct_read_sectors)},
          {"launches", double(c.launches)},
          {"blocks", double(c.blocks)},
          {"threads", double(c.threads)},
          {"barriers", double(c.barriers)},
          {"read_requests", double(c.read_requests)},
          {"read_sectors", double(c.read_sectors)},
          {"read_sectors_ideal", double(c.read_sectors_ideal)},
          {"write_requests", double(c.write_requests)},
          {"write_sectors", double(c.write_sectors)},
          {"write_sectors_ideal", double(c.write_sectors_ideal)},
          {"bank_conflicts", double(c.bank_conflicts())}};
}

}  // namespace kvconform::bench

int main(int argc, char** argv) {
  using namespace kvconform::bench;
#if PLANTED_FAULTS
  if (argc < 2 || std::strcmp(argv[1], "--plant-second-read-of-weights") != 0) {
    std::fprintf(stderr, "say --plant-second-read-of-weights first\n");
    return 2;
  }
  kvconform::cuda::plant(kvconform::cuda::PlantedFault::projection_reads_weights_twice);
  argv[1] = argv[0];
  ++argv;
  --argc;
#endif
  Workloads workloads;
  add_cuda_kernels(workloads);
  add_cuda_row_kernels(workloads);
  add_cuda_elementwise_kernels(workloads);
  add_cuda_calls(workloads);
  return benchmark_main(argc, argv, workloads, {.engine = "cuda (emulated)", .emulated = true});
}
