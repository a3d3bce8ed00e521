// Programs as children of this process, their output line by line.
#include "bench/programs.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "bench/results.h"
#include "reference/error.h"

namespace kvconform::bench {
namespace {

using Path = std::filesystem::path;
using OnLine = std::function<void(const std::string&)>;

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// Exit status of a shell command whose lines `on_line` gets.
int run_lines(const std::string& command, const OnLine& on_line) {
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe)
    throw HarnessError("KV5003", "cannot start " + command, "free some memory or processes");
  std::string line;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    on_line(line);
    line.clear();
  }
  if (!line.empty()) on_line(line);
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::regex filter_of(const ProgramRun& run) {
  try {
    return std::regex(run.filter);
  } catch (const std::regex_error&) {
    throw Error("KV5004", fmt::format("\"{}\" is no regular expression", run.filter),
                "write for example decode|prefill");
  }
}

/// The filter as Google Benchmark needs it: a fixed number of iterations is part of its names.
std::string google_filter(const std::string& filter) {
  std::string text;
  for (char c : filter) text += c == '$' ? "(/iterations:[0-9]+)?$" : std::string(1, c);
  return text;
}

[[noreturn]] void failed(const Path& program, int status, const std::string& last) {
  throw HarnessError(
      "KV5003",
      fmt::format("{} ended with status {}{}", program.string(), status,
                  last.empty() ? "" : " after: " + last),
      "run it by itself to see why; if its build folder is old, build bench_programs again");
}

}  // namespace

bool is_build_folder(const Path& folder) {
  return std::filesystem::exists(folder / "bench" / "reference_benchmark");
}

Programs programs_of(const Path& folder) {
  const Programs programs{folder / "bench" / "reference_benchmark",
                          folder / "bench" / "cuda_benchmark"};
  if (!std::filesystem::exists(programs.reference))
    throw Error(
        "KV5001",
        fmt::format("{} is not there: the benchmarks are not built", programs.reference.string()),
        "use ./kvconform bench, or: cmake --build BUILD --target bench_programs");
  return programs;
}

Path own_build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

nlohmann::json run_benchmarks(const Path& program, const ProgramRun& run, const Path& scratch,
                              const OnLine& on_line) {
  filter_of(run);
  const Path file = scratch / (program.filename().string() + ".json");
  std::string command = fmt::format(
      "{} --size {} --benchmark_out={} --benchmark_out_format=json --benchmark_min_time={} "
      "--benchmark_repetitions={}",
      quoted(program.string()), run.size, quoted(file.string()), run.seconds_each, run.repetitions);
  if (!run.filter.empty()) command += " --benchmark_filter=" + quoted(google_filter(run.filter));
  std::string last;
  const int status = run_lines(command + " 2>&1", [&](const std::string& line) {
    last = line;
    if (on_line) on_line(line);
  });
  std::error_code code;
  if (status > 1 || !std::filesystem::exists(file, code)) failed(program, status, last);
  if (std::filesystem::file_size(file, code) == 0)  // no benchmark matched the filter
    return {{"context", nlohmann::json::object()}, {"benchmarks", nlohmann::json::array()}};
  return read_json(file);
}

std::vector<std::string> list_benchmarks(const Path& program, const ProgramRun& run) {
  const std::regex filter = filter_of(run);
  std::vector<std::string> names;
  std::string last;
  const int status =
      run_lines(fmt::format("{} --size {} --list 2>&1", quoted(program.string()), run.size),
                [&](const std::string& line) {
                  last = line;
                  if (std::regex_search(line, filter)) names.push_back(line);
                });
  if (status != 0) failed(program, status, last);
  return names;
}

}  // namespace kvconform::bench
