// Configurations to start from: the published small models, and a tiny plain one of each family for
// `kvconform model create`. Sizes: model-spec, "Published sizes" (facts of Google's published
// config.json files).
//
//   json config = config_for_create(published_config("gemma3n-e2b"), {"num_hidden_layers=12"});
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reference/model_config.h"

namespace kvconform {

/// "gemma3n-e2b", "gemma4-e2b".
std::vector<std::string> published_config_names();

/// Throws Error KV1316 for an unknown name, listing the known ones.
nlohmann::json published_config(const std::string& name);

/// Six layers, the last three of them consumers; a few milliseconds a forward.
nlohmann::json tiny_config(Family family);

/// `base` with fields replaced: each override is FIELD=VALUE, the value JSON or else a plain
/// string. Checked as a whole by parse_model_config (unknown fields are refused there). Where the
/// number of layers changes and layer_types is not given, the pattern of `base` is repeated or cut.
/// Throws Error KV1317 for a malformed override.
nlohmann::json config_for_create(nlohmann::json base, const std::vector<std::string>& overrides);

}  // namespace kvconform
