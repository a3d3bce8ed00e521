// Configurations and prompts of benchmarks.
#include "bench/bench_models.h"

#include <nlohmann/json.hpp>

#include "reference/published_configs.h"
#include "reference/random.h"
#include "reference/random_weights.h"

namespace kvconform::bench {

nlohmann::json bench_config(Family family, int thirds_shared, int hidden) {
  const char *s = "sliding_attention", *f = "full_attention";
  nlohmann::json config = tiny_config(family);
  config.update({{"num_hidden_layers", 9},
                 {"layer_types", {s, s, f, s, s, f, s, s, f}},
                 {"num_kv_shared_layers", 3 * thirds_shared},
                 {"hidden_size", hidden},
                 {"intermediate_size", 4 * hidden},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", hidden / 4},
                 {"sliding_window", 32},
                 {"vocab_size", 2 * hidden},
                 {"vocab_size_per_layer_input", 2 * hidden},
                 {"hidden_size_per_layer_input", hidden / 8}});
  if (family == Family::gemma3n) {
    config["laurel_rank"] = hidden / 16;
    config["activation_sparsity_pattern"] = {0.9, 0.9, 0.9, 0., 0., 0., 0., 0., 0.};
  } else {
    config["global_head_dim"] = hidden / 2;
    config["use_double_wide_mlp"] = false;  // shared or not, a layer multiplies the same
  }
  return config;
}

std::shared_ptr<const Checkpoint> bench_checkpoint(Family family, int thirds_shared, int hidden) {
  const nlohmann::json config = bench_config(family, thirds_shared, hidden);
  return Checkpoint::from_tensors(config, random_weights(config, {.seed = 1}));
}

std::shared_ptr<const Checkpoint> real_size_checkpoint(const std::string& published, int shared) {
  nlohmann::json config = published_config(published);
  config.update({{"num_kv_shared_layers", shared},
                 {"vocab_size", 4096},
                 {"vocab_size_per_layer_input", 4096}});
  return Checkpoint::from_tensors(config,
                                  random_weights(config, {.seed = 1, .dtype = Dtype::bf16}));
}

std::vector<int> bench_prompt(const ModelConfig& config, int length) {
  RandomStream random(stream_key(1, "bench"));
  std::vector<int> tokens(length);
  for (int& token : tokens) token = random.between(0, config.vocab_size - 1);
  return tokens;
}

}  // namespace kvconform::bench
