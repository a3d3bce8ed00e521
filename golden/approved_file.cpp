// Reading and writing goldens. The JSON is written for people: calls in order, short lists on one
// line, a few values to recognise. The hash over all logits is what counts.
#include "golden/approved_file.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden/expected_arrays.h"
#include "golden/oracle_cases.h"
#include "golden/sha256.h"
#include "reference/error.h"
#include "reference/safetensors.h"

namespace kvconform {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kept_logits_bytes = 50'000;  // version control keeps every version of them
constexpr int shown_logits = 4;

[[noreturn]] void damaged(const fs::path& file, const std::string& problem) {
  throw Error("KV3006", file.string() + ": " + problem,
              "restore it from version control, or record and approve the golden again");
}

[[noreturn]] void cannot_write(const fs::path& file) {
  throw HarnessError("KV3010", file.string() + " cannot be written",
                     "check permissions and free space of that folder");
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

ordered_json describe_call(const GoldenCall& call, const Logits& logits) {
  ordered_json j = {{"call", to_string(call.kind)}};
  if (call.kind == GoldenCall::Kind::rewind) j["length"] = call.length;
  if (logits.positions == 0) return j;
  j["tokens"] = call.tokens;
  j["sha256"] = sha256(logits);
  std::vector<int> greedy;
  for (int t = 0; t < logits.positions; ++t) {
    const double* row = logits.row(t);
    greedy.push_back(int(std::max_element(row, row + logits.vocab) - row));
  }
  j["greedy"] = greedy;
  const double* last = logits.row(logits.positions - 1);
  ordered_json first = ordered_json::array();
  for (int i = 0; i < std::min(shown_logits, logits.vocab); ++i) first.push_back(last[i]);
  j["first_logits_of_last_row"] = first;
  return j;
}

/// One line a call: a diff in review then shows which calls changed.
std::string layout(const ordered_json& j) {
  std::string text = "{";
  for (const auto& [key, value] : j.items()) {
    text += fmt::format("{}\n  {}: ", text.size() > 1 ? "," : "", ordered_json(key).dump());
    if (key != "calls") {
      text += value.dump();
      continue;
    }
    text += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      text += fmt::format("{}\n    {}", i ? "," : "", value[i].dump());
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

std::size_t byte_count(const CallLogits& calls) {
  std::size_t bytes = 0;
  for (const Logits& logits : calls) bytes += logits.values.size() * sizeof(float);
  return bytes;
}

Logits read_call(const fs::path& file, const ExpectedArrays& arrays, std::size_t call) {
  const ExpectedArray& array = expected_array(arrays, fmt::format("{}.logits", call), file);
  if (array.dtype != "F32" || array.shape.size() != 2) {
    damaged(file, fmt::format("{}.logits is no float32 matrix", call));
  }
  return {int(array.shape[0]), int(array.shape[1]), array.values};
}

void write_text(const fs::path& file, const std::string& text) {
  const fs::path half = file.string() + ".part";
  std::ofstream out(half, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out) fs::rename(half, file, failed);
  if (!out || failed) cannot_write(file);
}

}  // namespace

std::string hash_of(const CallLogits& calls) {
  Sha256 hash;
  for (const Logits& logits : calls) hash.update(logits);
  return hash.hex();
}

Provenance provenance_here(const std::string& commit) {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");  // reproducible-builds.org
  const std::time_t now = epoch && *epoch ? std::time_t(std::atoll(epoch)) : std::time(nullptr);
#if defined(__clang__)
  const std::string compiler = fmt::format("clang++ {}", __clang_version__);
#else
  const std::string compiler = fmt::format("g++ {}", __VERSION__);
#endif
  return {compiler, processor_name(), fmt::format("{:%Y-%m-%d}", fmt::gmtime(now)), commit};
}

fs::path golden_json(const std::string& name, Stage stage) {
  return golden_dir() / "approved" / (name + (stage == Stage::pending ? ".pending" : "") + ".json");
}

fs::path golden_logits(const std::string& name, Stage stage) {
  return golden_json(name, stage).replace_extension(".safetensors");
}

std::optional<ApprovedGolden> read_golden(const std::string& name, Stage stage) {
  const fs::path file = golden_json(name, stage);
  if (!fs::exists(file)) return std::nullopt;
  ApprovedGolden golden{name, {}, {}, {}, {}};
  bool stored = false;
  try {
    std::ifstream in(file);
    const ordered_json j = ordered_json::parse(in);
    if (j.at("name") != name) damaged(file, fmt::format("is the golden {}", j.at("name").dump()));
    golden.fingerprint = j.at("recipe_sha256");
    golden.sha256 = j.at("sha256");
    stored = j.at("logits_stored");
    for (const auto& call : j.at("calls")) golden.call_hashes.push_back(call.value("sha256", ""));
  } catch (const ordered_json::exception& e) {
    damaged(file, e.what());
  }
  if (!stored) return golden;
  const fs::path logits = golden_logits(name, stage);
  const ExpectedArrays arrays = read_expected_arrays(logits);
  golden.logits.emplace();
  for (std::size_t call = 0; call < golden.call_hashes.size(); ++call) {
    const bool yields = !golden.call_hashes[call].empty();
    golden.logits->push_back(yields ? read_call(logits, arrays, call) : Logits{});
  }
  if (hash_of(*golden.logits) != golden.sha256) damaged(logits, "is not what the JSON was made of");
  return golden;
}

void write_call_logits(const fs::path& file, const CallLogits& calls) {
  TensorTable table;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const Logits& logits = calls[call];
    if (logits.positions == 0) continue;
    auto* out = reinterpret_cast<float*>(
        table.add(fmt::format("{}.logits", call), Dtype::f32, {logits.positions, logits.vocab}));
    std::copy(logits.values.begin(), logits.values.end(), out);
  }
  write_safetensors(file, table);
}

void write_pending(const Recipe& recipe, const CallLogits& calls, const Provenance& provenance) {
  const bool stored = byte_count(calls) <= kept_logits_bytes;
  ordered_json j = {{"name", recipe.name},
                    {"about", recipe.about},
                    {"sha256", hash_of(calls)},
                    {"recipe_sha256", recipe.fingerprint},
                    {"logits_stored", stored},
                    {"calls", ordered_json::array()},
                    {"provenance",
                     {{"compiler", provenance.compiler},
                      {"processor", provenance.processor},
                      {"date", provenance.date},
                      {"commit", provenance.commit}}}};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    j["calls"].push_back(describe_call(recipe.calls[i], calls[i]));
  }
  std::error_code failed;
  fs::create_directories(golden_dir() / "approved", failed);
  remove_pending(recipe.name);
  if (stored) write_call_logits(golden_logits(recipe.name, Stage::pending), calls);
  write_text(golden_json(recipe.name, Stage::pending), layout(j));  // last: what makes it a golden
}

void promote_pending(const std::string& name) {
  std::error_code failed;
  const fs::path logits = golden_logits(name, Stage::approved);
  if (fs::exists(golden_logits(name, Stage::pending))) {
    fs::rename(golden_logits(name, Stage::pending), logits, failed);
  } else {
    fs::remove(logits, failed);
  }
  if (failed) cannot_write(logits);
  fs::rename(golden_json(name, Stage::pending), golden_json(name, Stage::approved), failed);
  if (failed) cannot_write(golden_json(name, Stage::approved));
}

void remove_pending(const std::string& name) {
  fs::remove(golden_json(name, Stage::pending));
  fs::remove(golden_logits(name, Stage::pending));
}

}  // namespace kvconform
