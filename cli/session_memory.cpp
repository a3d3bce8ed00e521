// Text and JSON of a session's memory.
#include "cli/session_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/counted.h"

namespace kvconform::cli {
namespace {

constexpr std::size_t kLargest = 3;  // parts of the workspace that are named

std::string largest_parts(std::vector<cuda::Workspace::Part> parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kLargest, parts.size()); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", parts[i].name, parts[i].bytes);
  return text;
}

/// Owners one after the other with the same share stand in one line.
std::string cache_lines(const std::vector<cuda::SessionPlan::Cache>& caches) {
  std::string text;
  for (std::size_t i = 0; i < caches.size();) {
    std::size_t end = i + 1;
    while (end < caches.size() && caches[end].slots == caches[i].slots &&
           caches[end].bytes == caches[i].bytes)
      ++end;
    std::string layers;
    for (std::size_t j = i; j < end; ++j)
      layers += fmt::format("{}{}", j == i ? "" : ", ", caches[j].layer);
    text += fmt::format("    {} {}: {} a row, {}{}\n", agreeing(end - i, "layer", "layers"), layers,
                        counted(caches[i].slots, "slot"), counted(caches[i].bytes, "byte"),
                        end - i == 1 ? "" : " each");
    i = end;
  }
  return text;
}

}  // namespace

std::string session_memory_text(const ModelConfig& config, const std::vector<LayerPlan>& layers,
                                const cuda::SessionOptions& options) {
  if (config.bidirectional_all)
    return "\nthe CUDA engine opens no session for it: later tokens change earlier rows\n";
  const cuda::SessionPlan plan = cuda::plan_session(config, layers, options);
  return fmt::format(
             "\nmemory of a session of the CUDA engine (float32; batch {}, capacity {}, chunk {}, "
             "reserve {}), planned when it is opened\n"
             "  workspace {} bytes, one allocation of {}; the largest: {}\n"
             "  caches {} bytes\n",
             options.batch, options.capacity, options.chunk, options.reserve, plan.workspace_bytes,
             counted(plan.workspace.size(), "part"), largest_parts(plan.workspace),
             plan.cache_bytes) +
         cache_lines(plan.caches) +
         fmt::format("  rotary tables {} bytes\n  together {} bytes\n", plan.rope_bytes,
                     plan.bytes());
}

nlohmann::json session_memory_json(const ModelConfig& config, const std::vector<LayerPlan>& layers,
                                   const cuda::SessionOptions& options) {
  if (config.bidirectional_all) return nullptr;
  const cuda::SessionPlan plan = cuda::plan_session(config, layers, options);
  nlohmann::json parts = nlohmann::json::array(), owners = nlohmann::json::array();
  for (const auto& part : plan.workspace)
    parts.push_back({{"name", part.name}, {"offset", part.offset}, {"bytes", part.bytes}});
  for (const auto& cache : plan.caches)
    owners.push_back({{"layer", cache.layer}, {"slots", cache.slots}, {"bytes", cache.bytes}});
  return {{"batch", options.batch},
          {"capacity", options.capacity},
          {"chunk", options.chunk},
          {"reserve", options.reserve},
          {"granularity", options.granularity},
          {"bytes", plan.bytes()},
          {"rotary_tables", plan.rope_bytes},
          {"workspace", {{"bytes", plan.workspace_bytes}, {"parts", parts}}},
          {"caches", {{"bytes", plan.cache_bytes}, {"owners", owners}}}};
}

}  // namespace kvconform::cli
