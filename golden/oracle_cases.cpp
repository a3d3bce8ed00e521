// Finding and reading oracle cases. What a case says twice (prompts, in JSON and as an array) must
// agree.
#include "golden/oracle_cases.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& file, const std::string& problem) {
  throw Error("KV3002", file.string() + ": " + problem,
              "restore the file from version control, or correct that entry");
}

/// Reads `file` and hands its JSON to `read`; whatever JSON complains about names the file.
template <typename Read>
auto with_json(const fs::path& file, Read read) {
  std::ifstream in(file);
  if (!in) refuse(file, "cannot be opened");
  try {
    return read(json::parse(in));
  } catch (const json::exception& e) {
    refuse(file, e.what());
  }
}

std::vector<fs::path> case_folders(const fs::path& parent) {
  std::vector<fs::path> folders;
  if (!fs::is_directory(parent)) {
    throw Error("KV3001", fmt::format("{} is not a folder", parent.string()),
                "set KVCONFORM_GOLDEN_DIR to the folder golden/ of a source tree");
  }
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (fs::exists(entry.path() / "case.json")) folders.push_back(entry.path());
  }
  if (folders.empty()) {
    throw Error("KV3001", fmt::format("{} holds no cases", parent.string()),
                "set KVCONFORM_GOLDEN_DIR to the folder golden/ of a complete source tree");
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::optional<double> optional_number(const json& j, const char* key) {
  if (!j.contains(key) || j.at(key).is_null()) return std::nullopt;
  return j.at(key).get<double>();
}

OracleCase::Measured parse_measured(const json& j) {
  return {j.at("largest_logit"), j.at("float32_vs_float64"), j.at("plain_double_vs_float64"),
          optional_number(j, "one_token_at_a_time_vs_no_cache"),
          optional_number(j, "chunked_vs_no_cache")};
}

OracleCase parse_oracle_case(const json& j) {
  OracleCase oracle;
  oracle.name = j.at("name");
  oracle.family = j.at("family");
  oracle.description = j.at("description");
  oracle.prompts = j.at("prompts");
  oracle.traced_prompt = j.at("traced_prompt");
  oracle.cached = j.at("cached");
  const json& greedy = j.at("greedy");
  oracle.greedy = {greedy.at("prompt"), greedy.at("tokens"), greedy.at("smallest_top2_gap")};
  oracle.measured = parse_measured(j.at("measured"));
  if (j.contains("chunks")) {
    oracle.chunks = OracleCase::Chunks{j["chunks"].at("prompt"), j["chunks"].at("lengths")};
  }
  return oracle;
}

void check_prompts(const OracleCase& oracle) {
  for (std::size_t k = 0; k < oracle.prompts.size(); ++k) {
    const std::vector<double>& ids = oracle.array(int(k), "input_ids").values;
    const std::vector<int>& prompt = oracle.prompts[k];
    if (!std::equal(ids.begin(), ids.end(), prompt.begin(), prompt.end())) {
      refuse(oracle.folder / "case.json", fmt::format("prompt {} is not {}.input_ids", k, k));
    }
  }
}

}  // namespace

fs::path golden_dir() {
  const char* set = std::getenv("KVCONFORM_GOLDEN_DIR");
  const fs::path folder = set && *set ? set : KVCONFORM_GOLDEN_SOURCE_DIR;
  if (fs::is_directory(folder)) return folder;
  throw Error("KV3001", fmt::format("golden folder {} does not exist", folder.string()),
              "set KVCONFORM_GOLDEN_DIR to the folder golden/ of a source tree");
}

OracleCase load_oracle_case(const fs::path& folder) {
  OracleCase oracle = with_json(folder / "case.json", parse_oracle_case);
  oracle.folder = folder;
  oracle.expected = read_expected_arrays(folder / "expected.safetensors");
  check_prompts(oracle);
  return oracle;
}

std::vector<OracleCase> load_oracle_cases() {
  std::vector<OracleCase> cases;
  for (const fs::path& folder : case_folders(golden_dir() / "oracle")) {
    cases.push_back(load_oracle_case(folder));
  }
  return cases;
}

MlxLmCase load_mlx_lm_case(const fs::path& folder) {
  MlxLmCase mlx{folder.filename().string(), folder, {}, {}, {}};
  const fs::path file = folder / "expected.safetensors";
  const ExpectedArrays arrays = read_expected_arrays(file);
  std::vector<int> fresh = {0};
  with_json(folder / "case.json", [&](const json& j) {
    if (!j.contains("calls")) return;  // script a: one call, stored as input_ids
    mlx.calls = j.at("calls");
    fresh = j.at("fresh_cache_before_call").get<std::vector<int>>();
  });
  if (mlx.calls.empty()) {
    const std::vector<double>& ids = expected_array(arrays, "input_ids", file).values;
    mlx.calls = {std::vector<int>(ids.begin(), ids.end())};
    mlx.logits = {expected_array(arrays, "logits", file)};
  }
  for (std::size_t i = mlx.logits.size(); i < mlx.calls.size(); ++i) {
    mlx.logits.push_back(expected_array(arrays, fmt::format("{}.logits", i), file));
  }
  for (int i = 0; i < int(mlx.calls.size()); ++i) {
    mlx.fresh_cache_before.push_back(std::count(fresh.begin(), fresh.end(), i) > 0);
  }
  return mlx;
}

std::vector<MlxLmCase> load_mlx_lm_cases() {
  std::vector<MlxLmCase> cases;
  for (const fs::path& folder : case_folders(golden_dir() / "mlx-lm-1674")) {
    cases.push_back(load_mlx_lm_case(folder));
  }
  return cases;
}

}  // namespace kvconform
