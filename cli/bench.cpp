// bench: runs the benchmark programs of this build and writes a report. Running, counting and
// drawing is bench/'s; here are options, progress and words.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/interleaved.h"
#include "bench/machine_code.h"
#include "bench/programs.h"
#include "bench/report.h"
#include "bench/report_sharing.h"
#include "cli/choices.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/version.h"
#include "properties/temporary_folder.h"

namespace kvconform::cli {
namespace {

using namespace kvconform::bench;

struct Options {
  ProgramRun run;
  std::string report;
  bool figures = false, machine_code = false;
};

/// Least time of each timed benchmark: smoke has to end within two minutes.
double seconds_each(const std::string& size) {
  return size == "smoke" ? 0.05 : size == "default" ? 0.3 : 1;
}

bool names_a_benchmark(const std::string& line) {
  return line.rfind("reference/", 0) == 0 || line.rfind("cuda/", 0) == 0;
}

/// One line for each benchmark that has run, on standard error.
nlohmann::json run_program(const std::filesystem::path& program, const ProgramRun& run,
                           const std::filesystem::path& scratch) {
  write_error(fmt::format("running {}\n", program.filename().string()));
  return run_benchmarks(program, run, scratch, [](const std::string& line) {
    if (names_a_benchmark(line)) write_error(fmt::format("  {}\n", line.substr(0, line.find(' '))));
  });
}

nlohmann::json run_all(const Options& options, const std::filesystem::path& scratch) {
  const Programs programs = programs_of(own_build_folder());
  std::vector<nlohmann::json> parts = {run_program(programs.reference, options.run, scratch)};
  ProgramRun counted = options.run;
  counted.repetitions = 1;  // counts are exact
  counted.seconds_each = 0;
  if (std::filesystem::exists(programs.cuda))
    parts.push_back(run_program(programs.cuda, counted, scratch));
  if (options.machine_code) {
    write_error("compiling the kernels with nvcc\n");
    parts.push_back(machine_code_json(scratch));
  }
  return joined(parts);
}

void print_results(const Results& results) {
  for (const Entry& entry : results.entries) {
    if (!entry.error.empty())
      print("{} {}: {}\n", coloured("wrong", Colour::red, Stream::out), entry.name, entry.error);
    else if (entry.name.rfind("reference/", 0) == 0)
      print("{:<72} {:>10} {:>9.0f} tokens/s\n", entry.name, time_text(entry.cpu_nanoseconds),
            entry.counter("tokens_per_second"));
    else if (entry.label.empty())
      print("{:<72} {:>10.0f} registers\n", entry.name, entry.counter("registers"));
    else
      print("{:<72} {:>10} moved, {} needed\n", entry.name,
            bytes_text(entry.counter("bytes_read") + entry.counter("bytes_written")),
            bytes_text(entry.counter("bytes_needed")));
  }
}

std::string why_no_machine_code(const Options& options) {
  if (options.machine_code) return "";
  const std::string missing = machine_code_missing();
  return missing.empty() ? "Not looked at in this run: add --machine-code." : missing;
}

ExitCode run_bench(Options& options) {
  if (options.figures) {
    print("{}", markdown(sharing_figures()));
    return ExitCode::conforms;
  }
  end_on_interrupt();
  options.run.seconds_each = seconds_each(options.run.size);
  if (options.run.size != "smoke") options.machine_code |= machine_code_missing().empty();
  if (options.machine_code) require_machine_code();
  if (!options.report.empty()) open_bench_report(options.report);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<std::string> warnings = machine_warnings();
  const TemporaryFolder scratch("kvconform-bench");
  const nlohmann::json json = run_all(options, scratch.path());
  const Results results = results_from(json, "the benchmarks' output");
  RunFacts facts{commit(),
                 options.run.size,
                 0,
                 warnings,
                 why_no_machine_code(options),
                 disassembler_missing()};
  facts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Document document = run_document(results, facts);
  print_results(results);
  for (const std::string& warning : warnings) print("beware: {}\n", warning);
  print("{}\n", document.title);
  if (!options.report.empty()) {
    write_bench_report(options.report, document, json);
    print("report: {}\n", options.report);
  }
  if (results.entries.empty()) return ExitCode::nothing_compared;
  return document.good ? ExitCode::conforms : ExitCode::violated;
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--size", options->run.size, "smoke (under two minutes), default or deep")
      ->check(one_of("--size", {"smoke", "default", "deep"}))
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--filter", options->run.filter, "only benchmarks whose name matches this")
      ->type_name("REGEX");
  app.add_option("--repetitions", options->run.repetitions,
                 "time each benchmark so often; `bench compare` of two files wants 6 or more")
      ->check(whole_number(1, 1000))
      ->type_name("N");
  app.add_flag("--machine-code", options->machine_code,
               "compile the kernels with nvcc and look at the code (default and deep sizes do "
               "where nvcc is)");
  app.add_flag("--figures", options->figures,
               "only print what sharing saves on models of real size, computed");
  app.add_option("--report", options->report, "write the report into this new or empty folder")
      ->check([](const std::string& folder) { return folder.empty() ? "name a folder" : ""; })
      ->type_name("DIR");
  return [options] { return run_bench(*options); };
}

}  // namespace kvconform::cli
