// Registering workloads with Google Benchmark, and running them in turns.
#include "bench/benchmark_program.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "bench/counters.h"
#include "bench/machine_speed.h"

namespace kvconform::bench {
namespace {

struct Arguments {
  Size size = Size::standard;
  std::string turns;
  bool list = false;
};

const char* const kUsage =
    "options: --size smoke|default|deep, --turns NAME, --list, and Google Benchmark's own\n";

bool read_size(const std::string& word, Size& size) {
  if (word == "smoke") size = Size::smoke;
  if (word == "default") size = Size::standard;
  if (word == "deep") size = Size::deep;
  return word == "smoke" || word == "default" || word == "deep";
}

/// Takes our options out of argv; false where one makes no sense.
bool take_arguments(int& argc, char** argv, Arguments& arguments) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--size" && has_value) {
      if (!read_size(argv[++i], arguments.size)) return false;
    } else if (word == "--turns" && has_value) {
      arguments.turns = argv[++i];
    } else if (word == "--list") {
      arguments.list = true;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return true;
}

double count_of(const Counts& counts, const char* name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

/// Bytes that were counted, or else the least that the model needs.
double bytes_moved(const Counts& counts) {
  const double counted = count_of(counts, kBytesRead) + count_of(counts, kBytesWritten);
  return counted > 0 ? counted : count_of(counts, kBytesNeeded);
}

void add_rates(benchmark::State& state, const Counts& counts, const MachineSpeed& machine) {
  const auto rate = [&](const char* name, double amount) {
    if (amount > 0)
      state.counters[name] =
          benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  const double moved = bytes_moved(counts), products = count_of(counts, kMultiplyAdds);
  rate("tokens_per_second", count_of(counts, kTokens));
  rate("bytes_per_second", moved);
  rate("share_of_copy_bandwidth", moved / machine.copied_bytes_per_second);
  rate("multiply_adds_per_second", products);
  rate("share_of_peak", products / machine.multiply_adds_per_second);
}

void run_benchmark(benchmark::State& state, const NamedWorkload& named, bool emulated,
                   const MachineSpeed& machine) {
  const std::unique_ptr<Workload> workload = named.prepare();
  workload->run();
  std::string wrong = workload->wrong();
  for (auto _ : state) {
    if (!wrong.empty()) break;
    workload->run();
  }
  if (wrong.empty()) wrong = workload->wrong();
  if (!wrong.empty()) {
    state.SkipWithError(wrong.c_str());
    return;
  }
  const Counts counts = workload->counts();
  for (const auto& [name, count] : counts) state.counters[name] = count;
  if (emulated)
    state.SetLabel("emulated: not a kernel time");
  else
    add_rates(state, counts, machine);
}

const NamedWorkload* find_workload(const Workloads& workloads, const std::string& name) {
  const auto found = std::find_if(workloads.begin(), workloads.end(),
                                  [&](const NamedWorkload& w) { return w.name == name; });
  return found == workloads.end() ? nullptr : &*found;
}

long long nanoseconds_of(Workload& workload, long runs) {
  const double begin = thread_seconds();
  for (long i = 0; i < runs; ++i) workload.run();
  return static_cast<long long>((thread_seconds() - begin) * 1e9);
}

/// "ready", then a line of nanoseconds for each line with a number of runs, until input ends.
int take_turns(const Workloads& workloads, const std::string& name) {
  const NamedWorkload* named = find_workload(workloads, name);
  if (!named) {
    std::fprintf(stderr, "there is no benchmark %s\n", name.c_str());
    return 2;
  }
  const std::unique_ptr<Workload> workload = named->prepare();
  workload->run();
  if (const std::string wrong = workload->wrong(); !wrong.empty()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), wrong.c_str());
    return 1;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  for (long runs; std::cin >> runs;) {
    std::printf("%lld\n", nanoseconds_of(*workload, runs));
    std::fflush(stdout);
  }
  return workload->wrong().empty() ? 0 : 1;
}

class FailureReporter : public benchmark::ConsoleReporter {
 public:
  FailureReporter() : ConsoleReporter(OO_Tabular) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) failed_ |= run.error_occurred;
    ConsoleReporter::ReportRuns(runs);
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

void register_all(const Workloads& workloads, const Arguments& arguments,
                  const ProgramOptions& options, const MachineSpeed& machine) {
  for (const NamedWorkload& named : workloads) {
    if (named.from > arguments.size) continue;
    auto* registered = benchmark::RegisterBenchmark(
        named.name.c_str(),
        [&](benchmark::State& state) { run_benchmark(state, named, options.emulated, machine); });
    if (options.emulated) registered->Iterations(1);
  }
}

void add_context(const ProgramOptions& options, const MachineSpeed& machine) {
  benchmark::AddCustomContext("engine", options.engine);
  benchmark::AddCustomContext("copied_bytes_per_second",
                              std::to_string(machine.copied_bytes_per_second));
  benchmark::AddCustomContext("multiply_adds_per_second",
                              std::to_string(machine.multiply_adds_per_second));
}

}  // namespace

int benchmark_main(int argc, char** argv, const Workloads& workloads,
                   const ProgramOptions& options) {
  Arguments arguments;
  if (!take_arguments(argc, argv, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (!arguments.turns.empty()) return take_turns(workloads, arguments.turns);
  if (arguments.list) {
    for (const NamedWorkload& named : workloads)
      if (named.from <= arguments.size) std::printf("%s\n", named.name.c_str());
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const MachineSpeed machine = options.emulated ? MachineSpeed{} : measure_machine();
  if (!options.emulated)
    add_context(options, machine);
  else
    benchmark::AddCustomContext("engine", options.engine);
  register_all(workloads, arguments, options, machine);
  FailureReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.failed() ? 1 : 0;
}

}  // namespace kvconform::bench
