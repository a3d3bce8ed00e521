// What a run refuses before anything runs: checkpoints that hold NaN, an implementation to hold
// against that does not answer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "properties/finite_weights.h"
#include "properties/runner.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"
#include "reference/published_configs.h"
#include "reference/random_weights.h"

namespace kvconform {
namespace {

using nlohmann::json;

struct Planted {
  std::string tensor;
  std::int64_t element;
  float value;
};

TensorTable tensors_with(const json& config, Dtype dtype, const Planted& planted) {
  TensorTable table = random_weights(config, {1, dtype, DeadTensors::absent});
  const TensorView view = table.tensors.at(planted.tensor);
  auto* data = const_cast<std::byte*>(view.data) + planted.element * byte_size(dtype);
  const std::uint16_t narrow =
      dtype == Dtype::f16 ? narrow_f16(planted.value) : narrow_bf16(planted.value);
  if (dtype == Dtype::f32)
    std::memcpy(data, &planted.value, sizeof planted.value);
  else
    std::memcpy(data, &narrow, sizeof narrow);
  return table;
}

std::string name_ending_with(const json& config, const std::string& end) {
  for (const auto& [name, view] : random_weights(config, {1, Dtype::f32, {}}).tensors)
    if (name.ends_with(end)) return name;
  return "";
}

TEST(FiniteWeights, TheFirstNumberThatIsNotFiniteIsNamedInEveryFormat) {
  const json config = tiny_config(Family::gemma3n);
  const std::string name = name_ending_with(config, "layers.1.self_attn.q_proj.weight");
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (float value : {NAN, HUGE_VALF, -HUGE_VALF}) {
      const auto checkpoint =
          Checkpoint::from_tensors(config, tensors_with(config, dtype, {name, 37, value}));
      const auto place = find_non_finite(*checkpoint);
      ASSERT_TRUE(place) << to_string(dtype) << value;
      EXPECT_EQ(place->tensor, name);
      EXPECT_EQ(place->element, 37);
      EXPECT_EQ(place->nan, std::isnan(value));
    }
    const auto large =
        Checkpoint::from_tensors(config, tensors_with(config, dtype, {name, 37, 65504.0F}));
    EXPECT_FALSE(find_non_finite(*large)) << to_string(dtype);
  }
}

TEST(FiniteWeights, ProjectionsOfConsumersMayBeNaN) {
  const json config = tiny_config(Family::gemma4);
  const auto checkpoint =
      Checkpoint::from_tensors(config, random_weights(config, {1, Dtype::f32, DeadTensors::nan}));
  ASSERT_FALSE(checkpoint->report().dead.empty());
  EXPECT_FALSE(find_non_finite(*checkpoint));
}

std::string refusal(const RunOptions& options, const std::string& id) {
  try {
    require_valid(options);
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), id);
    return e.problem();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(RunOptions, ACheckpointThatHoldsNaNIsRefusedByTheNameOfTheTensor) {
  const TemporaryFolder folder("kvconform-options-test");
  const json config = tiny_config(Family::gemma3n);
  const std::string name = name_ending_with(config, "layers.0.input_layernorm.weight");
  write_checkpoint(folder.path() / "model", config,
                   tensors_with(config, Dtype::f32, {name, 0, NAN}));
  RunOptions options;
  options.models = {folder.path() / "model"};
  const std::string text = refusal(options, "KV2303");
  EXPECT_NE(text.find(name), std::string::npos) << text;
  EXPECT_NE(text.find("NaN"), std::string::npos) << text;
}

TEST(RunOptions, WhatSubjectsAreHeldAgainstMustAnswerAlsoWhereOnlyBitsAreCompared) {
  RunOptions options;
  options.properties = {"chunking"};
  options.against = "process:exit 3";
  options.timeout = 5;
  const std::string text = refusal(options, "KV2105");
  EXPECT_NE(text.find("process:exit 3"), std::string::npos) << text;
  EXPECT_NE(text.find("status 3"), std::string::npos) << text;
}

TEST(RunOptions, NamesThatNoCaseFileCanHoldAreRefused) {
  RunOptions options;
  options.subjects = {"process:./caf\xE9"};
  refusal(options, "KV2106");
  options.subjects = {"reference"};
  options.against = "process:./caf\xE9";
  refusal(options, "KV2106");
  options.against = "reference:double";
  options.models = {"/models/caf\xE9"};
  refusal(options, "KV2302");
}

}  // namespace
}  // namespace kvconform
