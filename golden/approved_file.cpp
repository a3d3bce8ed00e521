// Reading and writing goldens. The JSON is written for people: calls in order, short lists on one
// line, a few values to recognise. The hash over all logits is what counts.
#include "golden/approved_file.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

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

/// What people recognise a call's logits by.
ordered_json recognised(const Logits& logits) {
  ordered_json greedy = ordered_json::array(), first = ordered_json::array();
  for (int t = 0; t < logits.positions; ++t) {
    const double* row = logits.row(t);
    greedy.push_back(int(std::max_element(row, row + logits.vocab) - row));
  }
  const double* last = logits.row(logits.positions - 1);
  for (int i = 0; i < std::min(shown_logits, logits.vocab); ++i) first.push_back(last[i]);
  return {{"greedy", greedy}, {"first_logits_of_last_row", first}};
}

ordered_json describe_call(const ApprovedNumerics& numerics, const Logits& logits,
                           std::size_t call) {
  ordered_json j = ordered_json::object();
  if (numerics.call_hashes[call].empty()) return j;
  j["sha256"] = numerics.call_hashes[call];
  j["stages"] = fmt::format("{}", fmt::join(numerics.stages.calls[call], " "));
  j.update(recognised(logits));
  return j;
}

/// Objects that hold much over several lines, calls one a line: a diff in review then shows which
/// of them changed.
std::string layout(const ordered_json& j, const std::string& key, const std::string& above,
                   std::size_t depth) {
  const bool lines = depth == 0 || key == "calls" || key == "numerics" || above == "numerics";
  if (!lines || j.empty()) return j.dump();
  std::string text;
  for (const auto& [name, value] : j.items()) {
    text += fmt::format("{}\n{:{}}", text.empty() ? "" : ",", "", 2 * depth + 2);
    if (j.is_object()) text += ordered_json(name).dump() + ": ";
    text += layout(value, name, key, depth + 1);
  }
  return fmt::format("{}{}\n{:{}}{}", j.is_object() ? '{' : '[', text, "", 2 * depth,
                     j.is_object() ? '}' : ']');
}

std::size_t byte_count(const CallLogits& calls) {
  std::size_t bytes = 0;
  for (const Logits& logits : calls) bytes += logits.values.size() * sizeof(float);
  return bytes;
}

ordered_json to_json(const Provenance& provenance) {
  const ordered_json reason =
      provenance.reason.empty() ? ordered_json() : ordered_json(provenance.reason);
  return {{"computer", provenance.computer},   {"compiler", provenance.compiler},
          {"processor", provenance.processor}, {"date", provenance.date},
          {"commit", provenance.commit},       {"reason", reason}};
}

Provenance provenance_from(const ordered_json& j) {
  return {j.at("computer"), j.at("compiler"), j.at("processor"),
          j.at("date"),     j.at("commit"),   j.at("reason").is_null() ? "" : j.at("reason")};
}

ordered_json to_json(const ApprovedNumerics& numerics) {
  ordered_json j = {{"sha256", numerics.sha256},
                    {"provenance", to_json(numerics.provenance)},
                    {"logits_stored", numerics.stored},
                    {"stages", numerics.stages.stages},
                    {"calls", ordered_json::array()}};
  for (std::size_t call = 0; call < numerics.call_hashes.size(); ++call) {
    j["calls"].push_back(describe_call(numerics, numerics.logits->at(call), call));
  }
  return j;
}

ordered_json to_json(const ApprovedGolden& golden) {
  ordered_json j = {{"name", golden.name},
                    {"about", golden.about},
                    {"recipe_sha256", golden.fingerprint},
                    {"config", ordered_json::parse(golden.way.config)},
                    {"weights_sha256", golden.way.weights_sha256},
                    {"tensors", fmt::format("{}", fmt::join(golden.way.tensor_hashes, " "))},
                    {"calls", ordered_json::parse(golden.way.calls)},
                    {"numerics", ordered_json::object()}};
  for (const ApprovedNumerics& numerics : golden.numerics) {
    j["numerics"][numerics.kind] = to_json(numerics);
  }
  return j;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

ApprovedNumerics numerics_from(const std::string& kind, const ordered_json& j) {
  ApprovedNumerics numerics;
  numerics.kind = kind;
  numerics.sha256 = j.at("sha256");
  numerics.provenance = provenance_from(j.at("provenance"));
  numerics.stored = j.at("logits_stored");
  numerics.stages.stages = j.at("stages").get<std::vector<std::string>>();
  for (const ordered_json& call : j.at("calls")) {
    numerics.call_hashes.push_back(call.value("sha256", ""));
    numerics.stages.calls.push_back(words(call.value("stages", "")));
  }
  return numerics;
}

ApprovedGolden golden_from(const ordered_json& j) {
  ApprovedGolden golden;
  golden.name = j.at("name");
  golden.about = j.at("about");
  golden.fingerprint = j.at("recipe_sha256");
  // Sorted, as they are made: what is compared is text.
  golden.way.config = nlohmann::json(j.at("config")).dump();
  golden.way.calls = nlohmann::json(j.at("calls")).dump();
  golden.way.weights_sha256 = j.at("weights_sha256");
  golden.way.tensor_hashes = words(j.at("tensors"));
  for (const auto& [kind, numerics] : j.at("numerics").items()) {
    golden.numerics.push_back(numerics_from(kind, numerics));
  }
  return golden;
}

std::string array_name(const std::string& kind, std::size_t call) {
  return fmt::format("{}.{}.logits", kind, call);
}

Logits read_call(const fs::path& file, const ExpectedArrays& arrays, const std::string& name) {
  const ExpectedArray& array = expected_array(arrays, name, file);
  if (array.dtype != "F32" || array.shape.size() != 2) {
    damaged(file, fmt::format("{} is no float32 matrix", name));
  }
  return {int(array.shape[0]), int(array.shape[1]), array.values};
}

void read_logits(const fs::path& file, const ExpectedArrays& arrays, ApprovedNumerics& numerics) {
  numerics.logits.emplace();
  for (std::size_t call = 0; call < numerics.call_hashes.size(); ++call) {
    const bool yields = !numerics.call_hashes[call].empty();
    numerics.logits->push_back(yields ? read_call(file, arrays, array_name(numerics.kind, call))
                                      : Logits{});
  }
  if (hash_of(*numerics.logits) != numerics.sha256) {
    damaged(file, fmt::format("{} is not what the JSON was made of", numerics.kind));
  }
}

void read_all_logits(const fs::path& file, ApprovedGolden& golden) {
  std::optional<ExpectedArrays> arrays;
  for (ApprovedNumerics& numerics : golden.numerics) {
    if (!numerics.stored) continue;
    if (!arrays) arrays = read_expected_arrays(file);
    read_logits(file, *arrays, numerics);
  }
}

void write_logits(const fs::path& file, const ApprovedGolden& golden) {
  TensorTable table;
  for (const ApprovedNumerics& numerics : golden.numerics) {
    for (std::size_t call = 0; numerics.stored && call < numerics.logits->size(); ++call) {
      const Logits& logits = numerics.logits->at(call);
      if (logits.positions == 0) continue;
      auto* out = reinterpret_cast<float*>(
          table.add(array_name(numerics.kind, call), Dtype::f32, {logits.positions, logits.vocab}));
      std::copy(logits.values.begin(), logits.values.end(), out);
    }
  }
  if (!table.tensors.empty()) write_safetensors(file, table);
}

void replace_file(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed) cannot_write(to);
}

}  // namespace

void write_golden_text(const fs::path& file, const std::string& text) {
  const fs::path half = file.string() + ".part";
  std::ofstream out(half, std::ios::binary);
  out << text;
  out.close();
  if (!out) cannot_write(file);
  replace_file(half, file);
}

Provenance provenance_here(const std::string& computer, const std::string& commit) {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");  // reproducible-builds.org
  const std::time_t now = epoch && *epoch ? std::time_t(std::atoll(epoch)) : std::time(nullptr);
#if defined(__clang__)
  const std::string compiler = fmt::format("clang++ {}", __clang_version__);
#else
  const std::string compiler = fmt::format("g++ {}", __VERSION__);
#endif
  const std::string date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
  return {computer, compiler, processor_name(), date, commit, ""};
}

const ApprovedNumerics* ApprovedGolden::find(const std::string& kind) const {
  for (const ApprovedNumerics& one : numerics) {
    if (one.kind == kind) return &one;
  }
  return nullptr;
}

ApprovedNumerics approved_numerics(const std::string& kind, const Computation& computation,
                                   const Provenance& provenance) {
  ApprovedNumerics numerics;
  numerics.kind = kind;
  numerics.sha256 = hash_of(computation.logits);
  for (const Logits& logits : computation.logits) {
    numerics.call_hashes.push_back(logits.positions == 0 ? "" : sha256(logits));
  }
  numerics.stages = computation.stages;
  numerics.provenance = provenance;
  numerics.stored = byte_count(computation.logits) <= kept_logits_bytes;
  numerics.logits = computation.logits;
  return numerics;
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
  ApprovedGolden golden;
  try {
    std::ifstream in(file);
    golden = golden_from(ordered_json::parse(in));
  } catch (const ordered_json::exception& e) {
    damaged(file, e.what());
  }
  if (golden.name != name) damaged(file, fmt::format("is the golden {}", golden.name));
  read_all_logits(golden_logits(name, stage), golden);
  return golden;
}

void write_golden(const ApprovedGolden& golden, Stage stage) {
  std::error_code failed;
  fs::create_directories(golden_dir() / "approved", failed);
  remove_golden(golden.name, stage);
  write_logits(golden_logits(golden.name, stage), golden);
  // Last: this is what makes it a golden.
  write_golden_text(golden_json(golden.name, stage), layout(to_json(golden), "", "", 0) + "\n");
}

void promote_golden(const std::string& name, const std::string& reason) {
  const fs::path pending = golden_json(name, Stage::pending);
  std::ifstream in(pending);
  ordered_json j = ordered_json::parse(in);
  for (auto& [kind, numerics] : j.at("numerics").items()) {
    ordered_json& given = numerics.at("provenance").at("reason");
    if (given.is_null() && !reason.empty()) given = reason;
  }
  remove_golden(name, Stage::approved);
  if (fs::exists(golden_logits(name, Stage::pending))) {
    replace_file(golden_logits(name, Stage::pending), golden_logits(name, Stage::approved));
  }
  write_golden_text(golden_json(name, Stage::approved), layout(j, "", "", 0) + "\n");
  remove_golden(name, Stage::pending);
}

void remove_golden(const std::string& name, Stage stage) {
  fs::remove(golden_json(name, stage));
  fs::remove(golden_logits(name, stage));
}

}  // namespace kvconform
