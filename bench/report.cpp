// The sections of a run's report, and writing reports.
#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/counters.h"
#include "bench/plot.h"
#include "bench/report_sharing.h"
#include "properties/environment.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform::bench {
namespace {

/// The number behind "tokens:" and the like in a name.
double parameter(const std::string& name, const std::string& key) {
  const std::size_t at = name.find(key + ":");
  return at == std::string::npos ? 0 : std::strtod(name.c_str() + at + key.size() + 1, nullptr);
}

std::vector<const Entry*> wrong_entries(const Results& results) {
  std::vector<const Entry*> wrong;
  for (const Entry& entry : results.entries)
    if (!entry.error.empty()) wrong.push_back(&entry);
  return wrong;
}

Section wrong_section(const std::vector<const Entry*>& wrong) {
  Section section{"Wrong results", {"Each of these was timed or counted and is wrong."}, {}, {}};
  Table table{{"benchmark", "what is wrong"}, {}, 2};
  for (const Entry* entry : wrong) table.rows.push_back({entry->name, entry->error});
  section.tables = {table};
  return section;
}

Section machine_section(const Results& results, const RunFacts& facts) {
  Section section{"Machine", {}, {}, {}};
  Table table{{"what", "value"}, {}, 2};
  for (const auto& [key, value] : describe_environment()) table.rows.push_back({key, value});
  const double copied = results.context_number("copied_bytes_per_second");
  const double products = results.context_number("multiply_adds_per_second");
  table.rows.push_back({"copy bandwidth (one thread, read and written, same run)",
                        copied > 0 ? bytes_text(copied) + "/s" : "not measured"});
  table.rows.push_back(
      {"multiply-adds (one thread, in registers, same run)",
       products > 0 ? fmt::format("{:.2f} G/s", products * 1e-9) : "not measured"});
  section.tables = {table};
  for (const std::string& warning : facts.warnings)
    section.sentences.push_back("Beware: " + warning + ".");
  return section;
}

Series times_of(const Results& results, const std::string& prefix, const std::string& key,
                const std::string& name) {
  Series series{name, {}, true, true, false, {}};
  for (const Entry* entry : results.starting_with(prefix)) {
    if (!entry->error.empty()) continue;
    series.points.emplace_back(parameter(entry->name, key), entry->cpu_nanoseconds * 1e-9);
    series.labels.push_back(fmt::format("{}: {}", entry->name, time_text(entry->cpu_nanoseconds)));
  }
  std::sort(series.points.begin(), series.points.end());
  return series;
}

Series bytes_of(const Results& results, const std::string& prefix, const std::string& key,
                const std::string& name, bool needed) {
  Series series{name, {}, true, true, needed, {}};
  for (const Entry* entry : results.starting_with(prefix))
    series.points.emplace_back(parameter(entry->name, key),
                               needed ? entry->counter(kBytesNeeded)
                                      : entry->counter(kBytesRead) + entry->counter(kBytesWritten));
  std::sort(series.points.begin(), series.points.end());
  return series;
}

Section length_section(const Results& results) {
  Section section{"Against length", {}, {}, {}};
  section.sentences = {
      "Times are CPU times of the reference. Bytes are those that the CUDA engine's kernels move, "
      "counted on emulated threads, beside the least that the model needs."};
  section.plots.push_back(
      svg(LogPlot{"Reference: time against length",
                  "tokens of the prompt, or of the context",
                  "seconds",
                  {times_of(results, "reference/prefill/", "tokens", "prefill of a prompt"),
                   times_of(results, "reference/decode/", "context", "decoding one token")}}));
  section.plots.push_back(svg(LogPlot{
      "Reference: time against chunk and batch",
      "tokens of a chunk, or rows of a batch",
      "seconds",
      {times_of(results, "reference/chunked_prefill/", "chunk", "prefill of 64 tokens in chunks"),
       times_of(results, "reference/batch/", "rows", "decoding a token of each row")}}));
  section.plots.push_back(
      svg(LogPlot{"CUDA engine: bytes moved (counted)",
                  "tokens of the prompt, or of the context",
                  "bytes",
                  {bytes_of(results, "cuda/prefill/", "tokens", "prefill, moved", false),
                   bytes_of(results, "cuda/prefill/", "tokens", "prefill, needed", true),
                   bytes_of(results, "cuda/decode/", "context", "decode, moved", false),
                   bytes_of(results, "cuda/decode/", "context", "decode, needed", true)}}));
  return section;
}

/// Rates against intensity, under what the machine can do.
Section roofline_section(const Results& results) {
  const double copied = results.context_number("copied_bytes_per_second");
  const double peak = results.context_number("multiply_adds_per_second");
  if (!(copied > 0 && peak > 0)) return {"Roofline", {"The machine was not measured."}, {}, {}};
  LogPlot plot{"Roofline of the reference",
               "multiply-adds for each byte needed",
               "multiply-adds a second",
               {}};
  Series roof{"what this machine can do", {}, true, false, true, {}};
  for (double intensity = 1.0 / 64; intensity <= 1024; intensity *= 2)
    roof.points.emplace_back(intensity, std::min(peak, copied * intensity));
  plot.series.push_back(roof);
  for (const char* kind : {"kernels", "prefill", "decode", "batch"}) {
    Series series{kind, {}, false, true, false, {}};
    for (const Entry* entry : results.starting_with(fmt::format("reference/{}/", kind))) {
      const double needed = entry->counter(kBytesNeeded), products = entry->counter(kMultiplyAdds);
      if (!(needed > 0 && products > 0)) continue;
      series.points.emplace_back(products / needed, products / entry->cpu_nanoseconds * 1e9);
      series.labels.push_back(entry->name);
    }
    plot.series.push_back(series);
  }
  Section section{"Roofline", {}, {svg(plot)}, {}};
  section.sentences = {
      "The sloping line is the copy bandwidth, the flat one the peak of multiply-adds in "
      "registers, both of one thread and measured in this run. A point above the slope works out "
      "of a cache. Kernels of the CUDA engine have no place here: nothing of it was timed on a "
      "GPU."};
  return section;
}

std::string kernel_of(const Entry& entry) {
  return entry.name.substr(std::string("cuda/kernels/").size());
}

std::string times_needed(double moved, double needed) {
  return needed > 0 ? fmt::format("{:.2f}", moved / needed) : "-";
}

Section kernel_section(const Results& results) {
  Section section{"Kernels of the CUDA engine", {}, {}, {}};
  section.sentences = {
      "Counted on emulated threads, the same on every machine. Bytes read and written: sectors of "
      "32 bytes, for each request of a warp, as they come from the caches. Read once: if no sector "
      "came twice in a launch. Needed: what no kernel can avoid. Requests of few lanes and "
      "scattered "
      "addresses show as more bytes than needed. Conflicts: passes through shared memory beyond "
      "the "
      "fewest possible."};
  Table table{{"kernel", "needed", "read", "read once", "written", "moved / needed",
               "sectors a request", "conflicts", "barriers", "launches"},
              {},
              1};
  for (const Entry* entry : results.starting_with("cuda/kernels/")) {
    if (!entry->error.empty()) continue;
    const double read = entry->counter(kBytesRead), written = entry->counter(kBytesWritten);
    const double requests = entry->counter("read_requests") + entry->counter("write_requests");
    const double sectors = entry->counter("read_sectors") + entry->counter("write_sectors");
    table.rows.push_back({kernel_of(*entry), bytes_text(entry->counter(kBytesNeeded)),
                          bytes_text(read), bytes_text(entry->counter("bytes_read_once")),
                          bytes_text(written),
                          times_needed(read + written, entry->counter(kBytesNeeded)),
                          requests > 0 ? fmt::format("{:.2f}", sectors / requests) : "-",
                          fmt::format("{:.0f}", entry->counter("bank_conflicts")),
                          fmt::format("{:.0f}", entry->counter("barriers")),
                          fmt::format("{:.0f}", entry->counter(kLaunches))});
  }
  section.tables = {table};
  return section;
}

Section machine_code_section(const Results& results, const RunFacts& facts) {
  Section section{"Machine code", {}, {}, {}};
  if (!facts.machine_code_missing.empty()) {
    section.sentences = {facts.machine_code_missing};
    return section;
  }
  Table table{{"kernel", "architecture", "registers", "spilled bytes", "stack", "instructions",
               "global loads", "global stores", "local", "shared", "shuffles", "multiply-adds",
               "matrix", "barriers", "branches"},
              {},
              2};
  for (const Entry* entry : results.starting_with("machine_code/")) {
    const std::size_t slash = entry->name.rfind('/');
    std::vector<std::string> row = {entry->name.substr(13, slash - 13),
                                    entry->name.substr(slash + 1)};
    for (const char* counter :
         {"registers", "spill_bytes", "stack_bytes", "instructions", "instructions_global_load",
          "instructions_global_store", "instructions_local", "instructions_shared",
          "instructions_shuffle", "instructions_multiply_add", "instructions_matrix",
          "instructions_barrier", "instructions_branch"})
      row.push_back(entry->has(counter) ? fmt::format("{:.0f}", entry->counter(counter)) : "-");
    table.rows.push_back(row);
  }
  section.sentences = {
      "What nvcc and ptxas made of each kernel, exact; no GPU was there. Instructions are those in "
      "the code (cuobjdump), not those that run."};
  if (!facts.disassembler_missing.empty()) section.sentences.push_back(facts.disassembler_missing);
  section.tables = {table};
  return section;
}

Section all_section(const Results& results) {
  Section section{"All timed benchmarks", {}, {}, {}};
  Table table{{"benchmark", "CPU time", "tokens/s", "bytes needed", "of copy bandwidth",
               "of peak multiply-adds", "cache bytes"},
              {},
              1};
  for (const Entry* entry : results.starting_with("reference/")) {
    if (!entry->error.empty()) continue;
    table.rows.push_back({entry->name.substr(10), time_text(entry->cpu_nanoseconds),
                          fmt::format("{:.0f}", entry->counter("tokens_per_second")),
                          bytes_text(entry->counter(kBytesNeeded)),
                          percent_text(entry->counter("share_of_copy_bandwidth")),
                          percent_text(entry->counter("share_of_peak")),
                          entry->has(kCacheBytes) ? bytes_text(entry->counter(kCacheBytes)) : "-"});
  }
  section.sentences = {
      "The CPU reference, one thread. More than all of the copy bandwidth means "
      "that the weights lie in a cache."};
  section.tables = {table};
  return section;
}

Section counted_calls(const Results& results) {
  Section section{"Calls of the CUDA engine", {}, {}, {}};
  Table table{{"call", "bytes needed", "read", "written", "moved / needed", "launches a token",
               "barriers", "conflicts", "cache bytes"},
              {},
              1};
  for (const char* kind : {"prefill", "decode", "chunked_prefill", "batch"})
    for (const Entry* entry : results.starting_with(fmt::format("cuda/{}/", kind))) {
      if (!entry->error.empty()) continue;
      const double read = entry->counter(kBytesRead), written = entry->counter(kBytesWritten);
      table.rows.push_back({entry->name.substr(5), bytes_text(entry->counter(kBytesNeeded)),
                            bytes_text(read), bytes_text(written),
                            times_needed(read + written, entry->counter(kBytesNeeded)),
                            fmt::format("{:.1f}", entry->counter("launches_per_token")),
                            fmt::format("{:.0f}", entry->counter("barriers")),
                            fmt::format("{:.0f}", entry->counter("bank_conflicts")),
                            bytes_text(entry->counter(kCacheBytes))});
    }
  section.sentences = {"Whole models on emulated threads, counted: nine layers of width 32."};
  section.tables = {table};
  return section;
}

}  // namespace

Document run_document(const Results& results, const RunFacts& facts) {
  const auto wrong = wrong_entries(results);
  Document document;
  document.good = wrong.empty();
  document.title = wrong.empty()
                       ? "Benchmarks: every result is right"
                       : fmt::format("Benchmarks: {} {} wrong", counted(wrong.size(), "result"),
                                     agreeing(wrong.size(), "is", "are"));
  document.subtitle = fmt::format(
      "kvconform {} · size {} · {}, each verified in the run that timed or counted it · "
      "{:.0f} s",
      facts.commit.empty() ? "of an unknown commit" : facts.commit, facts.size,
      counted(results.entries.size(), "benchmark"), facts.seconds);
  if (!wrong.empty()) document.sections.push_back(wrong_section(wrong));
  for (const Section& section :
       {computed_sharing(), measured_sharing(results), length_section(results),
        roofline_section(results), kernel_section(results), counted_calls(results),
        machine_code_section(results, facts), all_section(results),
        machine_section(results, facts)})
    document.sections.push_back(section);
  return document;
}

void open_bench_report(const std::filesystem::path& folder) {
  std::error_code code;
  if (std::filesystem::exists(folder, code) &&
      (!std::filesystem::is_directory(folder, code) || !std::filesystem::is_empty(folder, code)))
    throw Error("KV5005",
                fmt::format("the report folder {} is not empty, or no folder", folder.string()),
                "name a new or empty folder");
  std::filesystem::create_directories(folder, code);
  if (code)
    throw HarnessError("KV5090", fmt::format("cannot make {}: {}", folder.string(), code.message()),
                       "check that the disk has room and the folder is writable");
}

void write_bench_report(const std::filesystem::path& folder, const Document& document,
                        const nlohmann::json& json) {
  write_file(folder / kResultsFile, json.dump(1) + "\n");
  write_file(folder / "summary.md", markdown(document));
  write_file(folder / "index.html", html(document));
}

}  // namespace kvconform::bench
