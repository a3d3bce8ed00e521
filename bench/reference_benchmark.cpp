// What the CPU reference costs: prefill by length, decode by context, with and without shared
// layers. Each benchmark first checks that what it times has the bits of `score`; a wrong result is
// an error, not a time.
//
//   build/bench/reference_benchmark --benchmark_filter=Decode
#include <benchmark/benchmark.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/model.h"
#include "reference/published_configs.h"
#include "reference/random_weights.h"

namespace kvconform {
namespace {

std::shared_ptr<const Checkpoint> checkpoint(int shared) {
  nlohmann::json config = tiny_config(Family::gemma3n);
  config["num_kv_shared_layers"] = shared;
  return Checkpoint::from_tensors(config, random_weights(config, {.seed = 1}));
}

std::vector<int> prompt(const ModelConfig& config, int length) {
  RandomStream random(stream_key(1, "bench"));
  std::vector<int> tokens(length);
  for (int& token : tokens) token = random.between(0, config.vocab_size - 1);
  return tokens;
}

/// range(0): prompt length; range(1): shared layers.
void Prefill(benchmark::State& state) {
  const Model<Float32> model(checkpoint(static_cast<int>(state.range(1))));
  const int length = static_cast<int>(state.range(0));
  const auto tokens = prompt(model.config(), length);
  const auto scored = model.score({tokens});
  for (auto _ : state) {
    auto cache = model.open({.batch = 1, .capacity = length});
    const auto logits = model.extend(cache, {tokens});
    if (logits.values != scored.values) state.SkipWithError("prefill differs from score");
  }
  state.SetItemsProcessed(state.iterations() * length);
}

/// range(0): tokens in the cache; range(1): shared layers.
void Decode(benchmark::State& state) {
  const Model<Float32> model(checkpoint(static_cast<int>(state.range(1))));
  const int context = static_cast<int>(state.range(0));
  const auto tokens = prompt(model.config(), context + 1);
  const auto scored = model.score({tokens});
  auto cache = model.open({.batch = 1, .capacity = context + 1});
  model.extend(cache, {{tokens.begin(), tokens.end() - 1}});
  for (auto _ : state) {
    const auto logits = model.extend(cache, {{tokens.back()}});
    if (!std::equal(logits.values.begin(), logits.values.end(), scored.row(context)))
      state.SkipWithError("decode differs from score");
    cache.rewind({context});
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(Prefill)->ArgNames({"tokens", "shared"})->ArgsProduct({{16, 64, 256}, {0, 3}});
BENCHMARK(Decode)->ArgNames({"context", "shared"})->ArgsProduct({{16, 64, 256}, {0, 3}});

}  // namespace
}  // namespace kvconform
