// Starting the benchmark programs of a build folder. Errors: KV5001 (a program is missing), KV5003
// (a program failed or answers nonsense).
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvconform::bench {

/// reference_benchmark and cuda_benchmark in FOLDER/bench; the second is missing in builds with
/// sanitizers.
struct Programs {
  std::filesystem::path reference, cuda;
};
bool is_build_folder(const std::filesystem::path& folder);
Programs programs_of(const std::filesystem::path& build_folder);
/// Those beside the running program.
std::filesystem::path own_build_folder();

struct ProgramRun {
  std::string size = "default";
  std::string filter;  ///< regular expression; empty: all
  int repetitions = 1;
  double seconds_each = 0.1;  ///< least time of a timed benchmark
};

/// Runs a program to its end: Google Benchmark's JSON. `on_line` gets its lines one by one. A
/// wrong result is in the JSON, no exception.
nlohmann::json run_benchmarks(const std::filesystem::path& program, const ProgramRun& run,
                              const std::filesystem::path& scratch,
                              const std::function<void(const std::string&)>& on_line);

/// Names of a program's benchmarks that match the filter.
std::vector<std::string> list_benchmarks(const std::filesystem::path& program,
                                         const ProgramRun& run);

}  // namespace kvconform::bench
