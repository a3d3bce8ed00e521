// Checkpoints made by other software open as they are, and everything that can be wrong with one
// has an id of its own. Faults are planted into copies of one healthy model; add a case to the
// table `faults` below.
#include "reference/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "reference/error.h"
#include "reference/safetensors.h"
#include "reference/test_files.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path golden = fs::path(KVCONFORM_SOURCE_DIR) / "golden";

std::vector<fs::path> oracle_cases() {
  std::vector<fs::path> cases;
  for (const char* folder : {"oracle", "mlx-lm-1674"})
    for (const auto& entry : fs::directory_iterator(golden / folder))
      if (entry.is_directory()) cases.push_back(entry.path());
  return cases;
}

// Config and tensors of one oracle case, to be damaged.
struct Parts {
  json config;
  TensorTable tensors;

  explicit Parts(const std::string& name) {
    const auto checkpoint = Checkpoint::open(golden / "oracle" / name);
    config = checkpoint->config_json();
    tensors = checkpoint->tensors();
  }
  std::shared_ptr<const Checkpoint> open() const {
    return Checkpoint::from_tensors(config, tensors);
  }
};

std::size_t bound_views(const Weights& weights) {
  std::size_t count = 0;
  const auto* views = reinterpret_cast<const TensorView*>(&weights.layers.front());
  for (std::size_t i = 0; i < weights.layers.size() * sizeof(LayerWeights) / sizeof(TensorView);
       ++i)
    if (views[i]) ++count;
  return count;
}

TEST(Checkpoint, EveryOracleCaseOpensAndBindsAllItsTensors) {
  const auto cases = oracle_cases();
  ASSERT_EQ(cases.size(), 49U + 3U);
  for (const fs::path& folder : cases) {
    SCOPED_TRACE(folder.filename().string());
    const auto checkpoint = Checkpoint::open(folder);
    std::set<std::string> expected;
    for (const TensorSpec& spec : tensor_specs(checkpoint->config(), checkpoint->plan()))
      if (!spec.dead) expected.insert(spec.name);
    const LoadReport& report = checkpoint->report();
    EXPECT_EQ(expected.size() + report.dead.size() + report.skipped.size(),
              checkpoint->tensors().tensors.size());
    EXPECT_TRUE(report.warnings.empty());
    std::size_t in_layers = 0;
    for (const std::string& name : expected) in_layers += name.starts_with("layers.") ? 1 : 0;
    EXPECT_EQ(bound_views(checkpoint->weights()), in_layers);
    EXPECT_TRUE(checkpoint->weights().lm_head);
  }
}

TEST(Checkpoint, DeadTensorsAreListedAndNotBound) {
  const auto checkpoint = Checkpoint::open(golden / "oracle" / "gemma3n-dead-tensors");
  EXPECT_FALSE(checkpoint->report().dead.empty());
  for (const LayerPlan& layer : checkpoint->plan()) {
    const LayerWeights& weights =
        checkpoint->weights().layers[static_cast<std::size_t>(layer.layer)];
    EXPECT_EQ(static_cast<bool>(weights.k_proj), layer.owns_keys());
    EXPECT_EQ(static_cast<bool>(weights.v_proj), layer.owns_keys());
    EXPECT_EQ(static_cast<bool>(weights.k_norm), layer.owns_keys());
  }
}

TEST(Checkpoint, TheHubFormSkipsOtherTowersAndStripsItsPrefix) {
  const auto checkpoint = Checkpoint::open(golden / "oracle" / "gemma4-hub-form");
  EXPECT_EQ(checkpoint->report().prefix, "model.language_model.");
  EXPECT_EQ(checkpoint->report().dead.size(), 9U);
  EXPECT_FALSE(checkpoint->report().skipped.empty());
}

TEST(Checkpoint, Bfloat16WeightsKeepTheirFormat) {
  const auto checkpoint = Checkpoint::open(golden / "oracle" / "gemma3n-bfloat16");
  EXPECT_EQ(checkpoint->weights().embed_tokens.dtype, Dtype::bf16);
}

}  // namespace
}  // namespace kvconform
