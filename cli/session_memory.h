// What a session of the CUDA engine reserves, in words and as JSON: the second half of `kvconform
// plan`. The numbers are the engine's own plan (cuda/engine.h, plan_session), which a test holds
// against what an opened session allocates.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cuda/engine.h"

namespace kvconform::cli {

/// Aligned text that ends with a newline; or why there can be no session.
std::string session_memory_text(const ModelConfig& config, const std::vector<LayerPlan>& layers,
                                const cuda::SessionOptions& options);

/// {"batch", "capacity", "chunk", "reserve", "granularity", "bytes", "rotary_tables", "workspace":
/// {"bytes", "parts": [{"name", "offset", "bytes"}]}, "caches": {"bytes", "owners": [{"layer",
/// "slots", "bytes"}]}}; null for a model without sessions.
nlohmann::json session_memory_json(const ModelConfig& config, const std::vector<LayerPlan>& layers,
                                   const cuda::SessionOptions& options);

}  // namespace kvconform::cli
