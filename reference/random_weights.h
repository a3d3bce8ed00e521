// Random weights for a configuration, the same on every machine: a tensor's numbers are a pure
// function of (seed, name, index). Scaled so that every branch of the model moves the logits (fresh
// models hide bugs: their norms, scalars and router scales are 1, their correct_output_scale is 0,
// their pad row is 0).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "reference/checkpoint.h"

namespace kvconform {

enum class DeadTensors { absent, random, nan };

struct WeightsRecipe {
  std::uint64_t seed = 0;
  Dtype dtype = Dtype::f32;
  DeadTensors dead_tensors = DeadTensors::absent;
};

/// All tensors of the model in memory. For tiny models.
TensorTable random_weights(const nlohmann::json& config, const WeightsRecipe& recipe);

/// Writes a checkpoint folder tensor by tensor, never holding more than a piece of one in memory:
/// for real sizes. Throws HarnessError (disk full, …) and leaves no half-written model behind.
void write_random_checkpoint(const std::filesystem::path& folder, const nlohmann::json& config,
                             const WeightsRecipe& recipe);

}  // namespace kvconform
