// Reading expected arrays: header length, JSON header, data; every byte accounted for.
#include "golden/expected_arrays.h"

#include <fmt/format.h>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are stored little-endian");

using nlohmann::json;

[[noreturn]] void refuse_arrays(const std::filesystem::path& file, const std::string& problem) {
  throw Error("KV3003", file.string() + ": " + problem,
              "restore the file from version control, or make it again with its generator");
}

std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse_arrays(file, "cannot be opened");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

json parse_header(const std::filesystem::path& file, std::string_view text) {
  std::set<std::string> names;
  const auto callback = [&](int depth, json::parse_event_t event, json& parsed) {
    // nlohmann keeps the last of two equal names without a word.
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(parsed).second) {
      refuse_arrays(file, fmt::format("array {} occurs twice", parsed.get<std::string>()));
    }
    return true;
  };
  try {
    json header = json::parse(text, callback);
    if (!header.is_object()) refuse_arrays(file, "the header is not a JSON object");
    return header;
  } catch (const json::exception& e) {
    refuse_arrays(file, fmt::format("the header is not valid JSON ({})", e.what()));
  }
}

template <typename T>
std::vector<double> widen(const char* data, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

struct Entry {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;
};

Entry parse_entry(const std::filesystem::path& file, const std::string& name, const json& j) {
  try {
    const auto offsets = j.at("data_offsets").get<std::vector<std::uint64_t>>();
    if (offsets.size() != 2)
      refuse_arrays(file, fmt::format("array {} has no two data_offsets", name));
    return {j.at("dtype"), j.at("shape").get<std::vector<std::int64_t>>(), offsets[0], offsets[1]};
  } catch (const json::exception& e) {
    refuse_arrays(file, fmt::format("array {} is not described properly ({})", name, e.what()));
  }
}

std::size_t element_count(const std::filesystem::path& file, const std::string& name,
                          const std::vector<std::int64_t>& shape, std::size_t limit) {
  std::size_t count = 1;
  for (std::int64_t n : shape) {
    // Compared by division: a product of sizes from a file may overflow.
    if (n < 0 || (n > 0 && count > limit / static_cast<std::size_t>(n))) {
      refuse_arrays(file, fmt::format("array {} has size {} in its shape", name, n));
    }
    count *= static_cast<std::size_t>(n);
  }
  return count;
}

ExpectedArray read_array(const std::filesystem::path& file, const std::string& name,
                         const Entry& entry, std::string_view data) {
  const std::size_t width = entry.dtype == "F32"                           ? 4
                            : entry.dtype == "F64" || entry.dtype == "I64" ? 8
                                                                           : 0;
  if (width == 0)
    refuse_arrays(file, fmt::format("array {} is {}, not F32, F64 or I64", name, entry.dtype));
  const std::size_t count = element_count(file, name, entry.shape, data.size());
  if (entry.end < entry.begin || entry.end > data.size() ||
      entry.end - entry.begin != count * width) {
    refuse_arrays(file, fmt::format("array {} has data_offsets [{}, {}] for {} of {} bytes", name,
                                    entry.begin, entry.end, counted(count, "value"), width));
  }
  const char* at = data.data() + entry.begin;
  ExpectedArray array{entry.dtype, entry.shape, {}};
  array.values = entry.dtype == "F32"   ? widen<float>(at, count)
                 : entry.dtype == "F64" ? widen<double>(at, count)
                                        : widen<std::int64_t>(at, count);
  for (double value : array.values) {
    if (!std::isfinite(value) || (entry.dtype == "I64" && std::abs(value) > 0x1p53)) {
      refuse_arrays(file, fmt::format("array {} holds the value {}", name, value));
    }
  }
  return array;
}

/// The arrays must follow each other without hole or overlap and fill the file.
void check_layout(const std::filesystem::path& file, const std::map<std::string, Entry>& entries,
                  std::size_t size) {
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (const auto& [name, entry] : entries) spans.emplace_back(entry.begin, entry.end);
  std::sort(spans.begin(), spans.end());
  std::size_t at = 0;
  for (const auto& [begin, end] : spans) {
    if (begin != at)
      refuse_arrays(file, fmt::format("data is expected at byte {}, found at {}", at, begin));
    at = end;
  }
  if (at != size)
    refuse_arrays(file, fmt::format("the arrays end at byte {}, the data at {}", at, size));
}

}  // namespace

ExpectedArrays read_expected_arrays(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file);
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) refuse_arrays(file, "shorter than the length of its header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) {
    refuse_arrays(
        file, fmt::format("the header has {}, the file {}", counted(length, "byte"), bytes.size()));
  }
  const auto whole = std::string_view(bytes).substr(sizeof length);
  const json header = parse_header(file, whole.substr(0, length));
  const auto data = whole.substr(length);

  std::map<std::string, Entry> entries;
  for (const auto& [name, j] : header.items()) {
    if (name != "__metadata__") entries[name] = parse_entry(file, name, j);
  }
  ExpectedArrays arrays;
  for (const auto& [name, entry] : entries) arrays[name] = read_array(file, name, entry, data);
  check_layout(file, entries, data.size());
  return arrays;
}

const ExpectedArray& expected_array(const ExpectedArrays& arrays, const std::string& name,
                                    const std::filesystem::path& file) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) refuse_arrays(file, fmt::format("there is no array {}", name));
  return found->second;
}

}  // namespace kvconform
