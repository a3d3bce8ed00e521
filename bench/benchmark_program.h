// The main function of a benchmark program. It runs workloads
//   - as Google Benchmark does, with all its options; each result is verified in the same run, and
//     a wrong one is an error instead of a time;
//   - or in turns with another process (`--turns NAME`): it prepares the workload, verifies it,
//     writes "ready", and then runs it N times for each line N on standard input, answering with
//     the nanoseconds of CPU that took. Two builds that take turns of milliseconds see the same
//     machine (interleaved.h).
//
//   program --size smoke --benchmark_out=FILE --benchmark_out_format=json
#pragma once

#include "bench/workload.h"

namespace kvconform::bench {

struct ProgramOptions {
  const char* engine;  ///< "reference", "cuda (emulated)": in the context of the JSON
  /// Emulated threads: times are those of the emulation, one run says all there is to say.
  bool emulated = false;
};

int benchmark_main(int argc, char** argv, const Workloads& workloads,
                   const ProgramOptions& options);

}  // namespace kvconform::bench
