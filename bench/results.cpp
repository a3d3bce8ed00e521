// Reading, joining and writing Google Benchmark's JSON.
#include "bench/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "reference/error.h"

namespace kvconform::bench {
namespace {

using nlohmann::json;

/// Fields of a benchmark that are not counters.
bool is_counter(const std::string& field) {
  static const std::set<std::string> fixed = {"family_index",     "per_family_instance_index",
                                              "repetitions",      "repetition_index",
                                              "threads_per_run",  "iterations",
                                              "real_time",        "cpu_time",
                                              "items_per_second", "bytes_per_second_builtin"};
  return !fixed.contains(field);
}

double nanoseconds(const json& value, const char* field) {
  const std::string unit = value.value("time_unit", "ns");
  const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 1e9;
  return value.value(field, 0.0) * scale;
}

Entry entry_from(const json& value) {
  Entry entry;
  entry.name = value.value("run_name", value.at("name").get<std::string>());
  entry.label = value.value("label", "");
  if (value.value("error_occurred", false)) entry.error = value.value("error_message", "failed");
  // A fixed number of iterations is part of Google's name, not of ours.
  if (const auto at = entry.name.find("/iterations:"); at != std::string::npos)
    entry.name.resize(at);
  entry.cpu_nanoseconds = nanoseconds(value, "cpu_time");
  entry.real_nanoseconds = nanoseconds(value, "real_time");
  for (const auto& [field, number] : value.items())
    if (number.is_number() && is_counter(field)) entry.counters[field] = number.get<double>();
  return entry;
}

}  // namespace

double Entry::counter(const std::string& name_of_counter) const {
  const auto found = counters.find(name_of_counter);
  return found == counters.end() ? 0 : found->second;
}

const Entry* Results::find(const std::string& name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::vector<const Entry*> Results::starting_with(const std::string& prefix) const {
  std::vector<const Entry*> found;
  for (const Entry& entry : entries)
    if (entry.name.rfind(prefix, 0) == 0) found.push_back(&entry);
  return found;
}

std::vector<double> Results::times_of(const std::string& name) const {
  std::vector<double> times;
  for (const Entry& entry : entries)
    if (entry.name == name && entry.error.empty()) times.push_back(entry.cpu_nanoseconds);
  return times;
}

double Results::context_number(const std::string& key) const {
  const auto found = context.find(key);
  if (found == context.end()) return 0;
  const double value = std::strtod(found->second.c_str(), nullptr);
  return std::isfinite(value) ? value : 0;
}

Results results_from(const json& value, const std::string& origin) {
  try {
    Results results;
    for (const auto& [key, text] : value.at("context").items())
      results.context[key] = text.is_string() ? text.get<std::string>() : text.dump();
    for (const json& benchmark : value.at("benchmarks"))
      if (benchmark.value("run_type", "iteration") == "iteration")
        results.entries.push_back(entry_from(benchmark));
    return results;
  } catch (const json::exception& error) {
    throw Error("KV5002",
                fmt::format("{} holds no results of benchmarks: {}", origin, error.what()),
                "give a file that kvconform bench or a Google Benchmark program has written");
  }
}

json read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw Error("KV5002", fmt::format("cannot read {}", file.string()),
                "name a results file, a report of kvconform bench, or a build folder");
  std::ostringstream text;
  text << in.rdbuf();
  json value = json::parse(text.str(), nullptr, false);
  if (value.is_discarded())
    throw Error("KV5002", fmt::format("{} is not JSON", file.string()),
                "give a file that kvconform bench or a Google Benchmark program has written");
  return value;
}

Results read_results(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / kResultsFile : path;
  return results_from(read_json(file), file.string());
}

json joined(const std::vector<json>& parts) {
  json whole = {{"context", json::object()}, {"benchmarks", json::array()}};
  for (const json& part : parts) {
    for (const auto& [key, value] : part.at("context").items())
      if (!whole["context"].contains(key)) whole["context"][key] = value;
    for (const json& benchmark : part.at("benchmarks")) whole["benchmarks"].push_back(benchmark);
  }
  return whole;
}

void write_file(const std::filesystem::path& file, const std::string& content) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << content;
  out.flush();
  if (!out)
    throw HarnessError("KV5090", fmt::format("cannot write {}", file.string()),
                       "check that the disk has room and the folder is writable");
}

}  // namespace kvconform::bench
