// Random weights are the same bytes everywhere, reach every branch, and a checkpoint folder of them
// is whole or absent.
#include "reference/random_weights.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "reference/error.h"
#include "reference/model.h"
#include "reference/published_configs.h"
#include "reference/random.h"
#include "reference/safetensors.h"
#include "reference/test_files.h"

namespace kvconform {
namespace {

using nlohmann::json;

// FNV-1a over names, formats and bytes in the order of names.
std::uint64_t hash_of(const TensorTable& table) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](const void* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3ULL;
  };
  for (const auto& [name, view] : table.tensors) {
    add(name.data(), name.size());
    add(view.data, static_cast<std::size_t>(view.count() * byte_size(view.dtype)));
  }
  return hash;
}

json experts_config() {
  return config_for_create(
      tiny_config(Family::gemma4),
      {"enable_moe_block=true", "num_experts=4", "top_k_experts=2", "moe_intermediate_size=12",
       "attention_bias=true", "tie_word_embeddings=false"});
}

TEST(RandomWeights, TheirBytesAreTheSameOnEveryMachine) {
  WeightsRecipe recipe{7, Dtype::f32, DeadTensors::random};
  EXPECT_EQ(hash_of(random_weights(tiny_config(Family::gemma3n), recipe)), 23019231606733408ULL);
  EXPECT_EQ(hash_of(random_weights(experts_config(), recipe)), 18183459848467289635ULL);
  recipe.dtype = Dtype::bf16;
  EXPECT_EQ(hash_of(random_weights(tiny_config(Family::gemma4), recipe)), 12001145340988088592ULL);
  recipe.dtype = Dtype::f16;
  EXPECT_EQ(hash_of(random_weights(tiny_config(Family::gemma4), recipe)), 16276654933068173428ULL);
}

TEST(RandomWeights, ANumberIsAFunctionOfSeedNameAndIndexAlone) {
  const json small = tiny_config(Family::gemma3n);
  const json deeper = config_for_create(small, {"num_hidden_layers=8"});
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const TensorTable one = random_weights(small, {3}), other = random_weights(deeper, {3}),
                    reseeded = random_weights(small, {4});
  const TensorView& view = one.tensors.at(name);
  EXPECT_EQ(std::memcmp(view.data, other.tensors.at(name).data,
                        static_cast<std::size_t>(view.count()) * 4),
            0);
  EXPECT_NE(std::memcmp(view.data, reseeded.tensors.at(name).data,
                        static_cast<std::size_t>(view.count()) * 4),
            0);

  const RandomStream stream(stream_key(3, "layers.1.mlp.up_proj.weight"));
  const float spread = static_cast<float>(std::sqrt(3.0 / 32));
  for (std::int64_t i : {0, 1, 17, 1535})
    EXPECT_EQ(element(view, i),
              spread * RandomStream::symmetric(stream.at(static_cast<std::uint64_t>(i))));
}

TEST(RandomWeights, NarrowFormatsRoundTheSameNumbers) {
  const json config = tiny_config(Family::gemma4);
  const TensorTable wide = random_weights(config, {5, Dtype::f32}),
                    half = random_weights(config, {5, Dtype::f16}),
                    brain = random_weights(config, {5, Dtype::bf16});
  for (const auto& [name, view] : wide.tensors)
    for (std::int64_t i = 0; i < view.count(); ++i) {
      ASSERT_EQ(element(half.tensors.at(name), i), widen_f16(narrow_f16(element(view, i)))) << name;
      ASSERT_EQ(element(brain.tensors.at(name), i), widen_bf16(narrow_bf16(element(view, i))))
          << name;
    }
}

TEST(RandomWeights, NoTensorIsConstantAndNoScaleIsNearZeroOrOne) {
  for (const json& config : {tiny_config(Family::gemma3n), experts_config()}) {
    for (const auto& [name, view] : random_weights(config, {1}).tensors) {
      float least = INFINITY, most = -INFINITY;
      for (std::int64_t i = 0; i < view.count(); ++i) {
        least = std::min(least, element(view, i));
        most = std::max(most, element(view, i));
        if (name.ends_with("correct_output_scale")) {
          EXPECT_GE(std::abs(element(view, i)), 0.5F);
        }
      }
      EXPECT_TRUE(view.count() == 1 || most > least) << name;
      EXPECT_LE(std::max(most, -least), 16.0F) << name;
      if (name.ends_with("layer_scalar")) {
        EXPECT_TRUE(least >= 0.5F && most < 1.2F) << name;
      }
      if (name.find("norm.weight") != name.npos && name.find("_norm") == name.npos) {
        EXPECT_TRUE(least >= 0.5F && most < 1.5F) << name;
      }
    }
  }
}

TEST(RandomWeights, DeadTensorsAreAbsentRandomOrNanAndTheRestStaysAsItIs) {
  const json config = tiny_config(Family::gemma4);
  const TensorTable absent = random_weights(config, {2}),
                    random = random_weights(config, {2, Dtype::f32, DeadTensors::random}),
                    nan = random_weights(config, {2, Dtype::f32, DeadTensors::nan});
  EXPECT_EQ(random.tensors.size(), absent.tensors.size() + 9);
  EXPECT_EQ(nan.tensors.size(), absent.tensors.size() + 9);
  for (const auto& [name, view] : nan.tensors) {
    const bool dead = !absent.tensors.contains(name);
    for (std::int64_t i = 0; i < view.count(); ++i)
      ASSERT_EQ(std::isnan(element(view, i)), dead) << name;
    const auto bytes = static_cast<std::size_t>(view.count()) * 4;
    if (!dead) {
      ASSERT_EQ(std::memcmp(view.data, absent.tensors.at(name).data, bytes), 0) << name;
      ASSERT_EQ(std::memcmp(view.data, random.tensors.at(name).data, bytes), 0) << name;
    }
  }
  const auto checkpoint = Checkpoint::from_tensors(config, nan);
  EXPECT_EQ(checkpoint->report().dead.size(), 9U);
}

TEST(RandomWeights, AWrittenCheckpointOpensAndHoldsTheSameNumbers) {
  TemporaryFolder folder;
  // An embedding table of several pieces, so that threads and piece borders take part.
  const json config = config_for_create(tiny_config(Family::gemma3n), {"vocab_size=150000"});
  const WeightsRecipe recipe{11, Dtype::bf16, DeadTensors::random};
  write_random_checkpoint(folder / "a/b", config, recipe);
  const auto checkpoint = Checkpoint::open(folder / "a/b");
  EXPECT_EQ(hash_of(checkpoint->tensors()), hash_of(random_weights(config, recipe)));
  EXPECT_EQ(checkpoint->config_json().at("dtype"), "bfloat16");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "a/b"), {}), 2);
}

TEST(RandomWeights, AFolderThatIsNotEmptyIsRefusedAndLeftAlone) {
  TemporaryFolder folder;
  write_text(folder / "config.json", "mine");
  EXPECT_EQ(id_of([&] { write_random_checkpoint(folder.path(), tiny_config(Family::gemma4), {}); }),
            "KV1315");
  EXPECT_EQ(read_text(folder / "config.json"), "mine");
}

TEST(RandomWeights, AModelLargerThanTheDiskIsRefusedBeforeAnythingIsWritten) {
  TemporaryFolder folder;
  json config = published_config("gemma3n-e2b");
  config["hidden_size"] = config["intermediate_size"] = 1 << 24;  // a petabyte a matrix
  EXPECT_EQ(id_of([&] { write_random_checkpoint(folder / "big", config, {}); }), "KV1320");
  EXPECT_TRUE(folder.is_empty());
}

TEST(RandomWeights, AWriteThatFailsHalfwayLeavesNothingBehind) {
  TemporaryFolder folder;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100'000, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);  // then write() fails with EFBIG instead
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string id =
      id_of([&] { write_random_checkpoint(folder / "new", tiny_config(Family::gemma3n), {}); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(id, "KV1220");
  EXPECT_TRUE(folder.is_empty());
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

// Logits of a prompt longer than the window, in double.
std::vector<double> logits_of(const json& config, const TensorTable& tensors) {
  const Model<Float64> model(Checkpoint::from_tensors(config, tensors));
  return model.score({{1, 5, 2, 9, 9, 30, 4, 11, 7, 3, 8, 6}}).values;
}

TEST(RandomWeights, EveryTensorMovesTheLogitsAndLogitsAreOfOrdinarySize) {
  for (const json& config :
       {tiny_config(Family::gemma3n), tiny_config(Family::gemma4), experts_config()}) {
    const TensorTable healthy = random_weights(config, {1});
    const std::vector<double> expected = logits_of(config, healthy);
    EXPECT_GT(largest(expected), 2.0);
    EXPECT_LT(largest(expected), 29.0) << "the softcap of 30 hides differences";
    for (const auto& [name, view] : healthy.tensors) {
      TensorTable changed = healthy;
      const auto count = view.count();
      std::byte* data = changed.add(name, Dtype::f32, view.shape);
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = element(view, i) * (i % 2 == 0 ? 1.01F : 0.99F);
        std::memcpy(data + i * 4, &value, 4);
      }
      std::vector<double> difference = logits_of(config, changed);
      for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
      // One percent of a weight moves them by more than this; rounding in double by less than
      // 1e-12. What the last layer's scalar does to the stream, the final norm undoes but for its
      // epsilon.
      const bool undone = name == "model.layers.5.layer_scalar";
      EXPECT_GT(largest(difference), undone ? 1e-10 : 1e-5) << name;
    }
  }
}

TEST(PublishedConfigs, HaveTheSizesOfThePublishedModels) {
  for (const std::string& name : published_config_names()) {
    const ModelConfig config = parse_model_config(published_config(name));
    long long numbers = 0;
    for (const TensorSpec& spec : tensor_specs(config, plan_layers(config))) {
      long long count = spec.dead ? 0 : 1;
      for (std::int64_t length : spec.shape) count *= length;
      numbers += count;
    }
    // With the dead tensors that the published files carry these are 4.46 and 4.65 billion.
    EXPECT_EQ(numbers, name == "gemma3n-e2b" ? 4435182688 : 4628569379) << name;
  }
}

TEST(PublishedConfigs, OverridesAreParsedAndCheckedAndListsFollowTheDepth) {
  const json tiny = tiny_config(Family::gemma3n);
  const json config = config_for_create(
      tiny, {"num_hidden_layers=7", "sliding_window=3", "final_logit_softcapping=null"});
  EXPECT_EQ(config.at("sliding_window"), 3);
  EXPECT_EQ(config.at("layer_types").size(), 7U);
  EXPECT_EQ(config.at("activation_sparsity_pattern").at(6),
            config.at("activation_sparsity_pattern").at(0));
  EXPECT_EQ(config_for_create(tiny, {"hidden_activation=gelu_pytorch_tanh"}), tiny);
  EXPECT_EQ(id_of([&] { config_for_create(tiny, {"sliding_window"}); }), "KV1317");
  EXPECT_EQ(id_of([&] { config_for_create(tiny, {"=3"}); }), "KV1317");
  EXPECT_EQ(id_of([&] { published_config("gemma9"); }), "KV1316");
  EXPECT_EQ(id_of([&] { config_for_create(tiny, {"slidingwindow=3"}); }).substr(0, 4), "KV10");
}

}  // namespace
}  // namespace kvconform
