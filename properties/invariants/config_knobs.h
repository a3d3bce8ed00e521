// Fields of a config and other values for them: those that must change what a model computes, and
// those that must not. To add one: a line in one of the tables of config_knobs.cpp.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "reference/model_config.h"

namespace kvconform {

/// What a knob may look at.
struct KnobInput {
  const nlohmann::json& config;
  const ModelConfig& parsed;
  std::uint64_t choice = 0;
};

struct Knob {
  const char* name;
  const char* capability;  ///< that a subject needs to honour it; empty: none
  bool score_only;         ///< the turned model has no cache
  /// The config with another value; nothing where the model has no room for one.
  std::optional<nlohmann::json> (*turn)(const KnobInput&);
};

/// A field without effect, with a value that would have one if it were read.
struct HarmlessField {
  const char* name;
  const char* value;  ///< JSON
  std::optional<Family> family;
};

const std::vector<Knob>& config_knobs();
const std::vector<HarmlessField>& harmless_config_fields();

}  // namespace kvconform
