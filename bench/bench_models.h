// The models that benchmarks run: small enough for a laptop and for emulated threads, large enough
// that sums and caches cross their cuts, with none, a third or two thirds of the layers shared.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reference/checkpoint.h"

namespace kvconform::bench {

/// Nine layers, two sliding and a full one in turn; `thirds_shared` of them (0, 1, 2 thirds) read
/// the keys and values of others.
nlohmann::json bench_config(Family family, int thirds_shared, int hidden);

std::shared_ptr<const Checkpoint> bench_checkpoint(Family family, int thirds_shared, int hidden);

/// The layers of a published model in bfloat16, with a vocabulary of 4,096 (its tables are only
/// looked up): 30 layers and 4 GB for gemma3n-e2b, minutes to draw. `shared`: layers that read
/// others' keys and values.
std::shared_ptr<const Checkpoint> real_size_checkpoint(const std::string& published, int shared);

/// The same token ids on every machine.
std::vector<int> bench_prompt(const ModelConfig& config, int length);

}  // namespace kvconform::bench
