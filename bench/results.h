// Results of benchmarks as Google Benchmark writes them: one JSON object with "context" and
// "benchmarks". Ours are that format to the letter, so that Google's own tools read them too; exact
// counts are its user counters (counters.h).
//
// Errors: KV5002 (no such results, or none that can be read), KV5090 (not writable).
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvconform::bench {

struct Entry {
  std::string name, label;
  std::string error;  ///< why there is no time; empty: verified
  double cpu_nanoseconds = 0, real_nanoseconds = 0;
  std::map<std::string, double> counters;

  double counter(const std::string& name_of_counter) const;  ///< 0 where it is missing
  bool has(const std::string& name_of_counter) const { return counters.contains(name_of_counter); }
};

struct Results {
  std::map<std::string, std::string> context;
  std::vector<Entry> entries;  ///< repetitions of a benchmark are entries of one name

  const Entry* find(const std::string& name) const;
  std::vector<const Entry*> starting_with(const std::string& prefix) const;
  std::vector<double> times_of(const std::string& name) const;  ///< CPU ns, of each repetition
  double context_number(const std::string& key) const;
};

/// A JSON file, or a report folder with one.
Results read_results(const std::filesystem::path& path);
Results results_from(const nlohmann::json& json, const std::string& origin);

/// Context of the first, extended by the others'; benchmarks one after the other.
nlohmann::json joined(const std::vector<nlohmann::json>& parts);

nlohmann::json read_json(const std::filesystem::path& file);
void write_file(const std::filesystem::path& file, const std::string& content);

inline constexpr const char* kResultsFile = "benchmarks.json";

}  // namespace kvconform::bench
