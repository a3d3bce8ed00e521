// Finding and joining the files of a checkpoint folder; filling a new one.
#include "reference/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "reference/error.h"
#include "reference/partial_file.h"
#include "reference/safetensors_header.h"

namespace kvconform {

namespace fs = std::filesystem;

namespace {

const char* const index_name = "model.safetensors.index.json";
constexpr std::uintmax_t text_cap = 100'000'000;  // as much as a safetensors header may have

std::string read_text(const fs::path& file, const char* id, const char* remedy) {
  std::error_code problem;
  if (!fs::is_regular_file(file, problem))
    throw Error(
        id,
        file.string() + (fs::exists(file, problem) ? " is not a regular file" : " does not exist"),
        remedy);
  if (fs::file_size(file, problem) > text_cap || problem)
    throw Error(id, fmt::format("{} is larger than {} bytes", file.string(), text_cap), remedy);
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in)
    throw Error(id, fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)), remedy);
  return text;
}

std::string names_in(const fs::path& folder) {
  std::error_code problem;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, problem))
    names.insert(entry.path().filename().string());
  std::string text;
  int shown = 0;
  for (const std::string& name : names)
    text += shown++ < 8 ? (text.empty() ? "" : ", ") + name : shown == 9 ? ", …" : "";
  return text.empty() ? "nothing" : text;
}

// weight_map: tensor name to shard. Shards must lie beside the index: a checkpoint is untrusted
// input, and
// "../other/model.safetensors" would read whatever the user can read.
std::map<std::string, std::string> read_index(const fs::path& file) {
  const char* const remedy =
      "save the model again with save_pretrained, or join the shards into one model.safetensors";
  const nlohmann::json index =
      nlohmann::json::parse(read_text(file, "KV1304", remedy), nullptr, false);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty())
    throw Error("KV1304", file.string() + " is no JSON object with a weight_map", remedy);
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      throw Error("KV1304",
                  fmt::format("{}: the shard of {} is {}", file.string(), quoted_name(tensor),
                              shard.dump().substr(0, 100)),
                  remedy);
    const std::string name = shard.get<std::string>();
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
      throw Error("KV1305",
                  fmt::format("{}: {} is said to lie in {}, which is no plain file name",
                              file.string(), quoted_name(tensor), quoted_name(name)),
                  "keep the shards in the folder of the index and name them without a path");
    shards[tensor] = name;
  }
  return shards;
}

// Adds one file's tensors; `came_from` remembers each tensor's file.
void join(SafetensorsContent content, const std::string& file,
          std::map<std::string, std::string>& came_from, StoredTensors& all) {
  const auto claim = [&](const std::string& name) {
    const auto [first, fresh] = came_from.emplace(name, file);
    if (!fresh)
      throw Error("KV1308",
                  fmt::format("{}: {} is in {} and in {}", all.origin, quoted_name(name),
                              first->second, file),
                  "remove the stale shard");
  };
  for (auto& [name, tensor] : content.table.tensors) {
    claim(name);
    all.table.tensors[name] = std::move(tensor);
  }
  for (auto& [name, tensor] : content.others) {
    claim(name);
    all.others[name] = std::move(tensor);
  }
  std::move(content.table.keep_alive.begin(), content.table.keep_alive.end(),
            std::back_inserter(all.table.keep_alive));
}

StoredTensors read_shards(const fs::path& folder) {
  const std::map<std::string, std::string> index = read_index(folder / index_name);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index) shards.insert(shard);
  StoredTensors all;
  all.origin = folder.string();
  std::map<std::string, std::string> came_from;
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard))
      throw Error("KV1306",
                  fmt::format("{}: the index names {}, which does not exist", all.origin,
                              quoted_name(shard)),
                  "download the missing shard");
    join(read_safetensors(folder / shard), shard, came_from, all);
  }
  for (const auto& [tensor, shard] : index) {
    const auto found = came_from.find(tensor);
    if (found == came_from.end() || found->second != shard)
      throw Error(
          "KV1307",
          fmt::format("{}: {} should be in {} but is not", all.origin, quoted_name(tensor), shard),
          "index and shards belong to different models; download both again");
  }
  for (const auto& [tensor, shard] : came_from)
    if (!index.contains(tensor))
      all.warnings.push_back(fmt::format("{} is in {} but not in the index", tensor, shard));
  return all;
}

StoredTensors read_single(const fs::path& file) {
  StoredTensors all;
  all.origin = file.string();
  std::map<std::string, std::string> came_from;
  join(read_safetensors(file), file.filename().string(), came_from, all);
  return all;
}

}  // namespace

std::string read_config_text(const fs::path& folder) {
  std::error_code problem;
  if (!fs::is_directory(folder, problem))
    throw Error(
        "KV1301",
        folder.string() + (fs::exists(folder, problem) ? " is not a folder" : " does not exist"),
        "give a checkpoint folder with config.json and model.safetensors");
  return read_text(folder / "config.json", "KV1302",
                   "give a checkpoint folder in Hugging Face layout, with its config.json");
}

StoredTensors read_stored_tensors(const fs::path& weights) {
  std::error_code problem;
  if (!fs::is_directory(weights, problem)) return read_single(weights);
  const bool single = fs::exists(weights / "model.safetensors", problem);
  const bool sharded = fs::exists(weights / index_name, problem);
  if (!single && !sharded)
    throw Error(
        "KV1303",
        fmt::format("{} holds neither model.safetensors nor {}, only {}", weights.string(),
                    index_name, names_in(weights)),
        "convert the weights to safetensors (save_pretrained does), or finish the download");
  if (!single) return read_shards(weights);
  StoredTensors all = read_single(weights / "model.safetensors");
  if (sharded)
    all.warnings.push_back(std::string(index_name) + " is ignored, since model.safetensors exists");
  return all;
}

NewFolder::NewFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code problem;
  if (fs::exists(folder_, problem) &&
      !(fs::is_directory(folder_, problem) && fs::is_empty(folder_, problem)))
    throw Error("KV1315", folder_.string() + " exists and is not an empty folder",
                "choose a new or empty folder");
  for (fs::path step = fs::absolute(folder_); !fs::exists(step, problem); step = step.parent_path())
    first_made_ = step;
  problem.clear();
  fs::create_directories(folder_, problem);
  if (!fs::is_directory(folder_))
    throw HarnessError(
        "KV1320", fmt::format("cannot make the folder {}: {}", folder_.string(), problem.message()),
        "choose a folder that you may write to");
}

NewFolder::~NewFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove(config_file(), ignored);
  fs::remove(weights_file(), ignored);
  if (first_made_.empty()) return;
  // Only empty folders go, from the inside out: whatever somebody else put there meanwhile stays.
  for (fs::path step = fs::absolute(folder_); fs::remove(step, ignored) && step != first_made_;
       step = step.parent_path()) {
  }
}

void NewFolder::write_config(const std::string& text) {
  PartialFile out(config_file());
  out.write_at(0, text.data(), text.size());
  out.commit();
}

void NewFolder::require_space(std::uint64_t bytes) const {
  std::error_code problem;
  const fs::space_info space = fs::space(folder_, problem);
  if (!problem && space.available < bytes)
    throw HarnessError("KV1320",
                       fmt::format("{} needs {} bytes, but only {} are free", folder_.string(),
                                   bytes, space.available),
                       "free some space, choose a folder on another disk, or a smaller model");
}

}  // namespace kvconform
