// Costs of models against sizes that are known otherwise: published parameter counts, sums by hand.
#include "bench/model_cost.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/bench_models.h"
#include "reference/model.h"
#include "reference/published_configs.h"

namespace kvconform::bench {
namespace {

ModelCost cost_of(const nlohmann::json& config, int bytes_per_number) {
  const ModelConfig parsed = parse_model_config(config);
  return {parsed, plan_layers(parsed), bytes_per_number};
}

TEST(ModelCost, of_published_models_is_their_number_of_weights) {
  // Without embedding tables, with the head: 2.42 and 2.28 thousand million numbers.
  EXPECT_NEAR(cost_of(published_config("gemma3n-e2b"), 2).of({}).weight_bytes, 4.84e9, 0.01e9);
  EXPECT_NEAR(cost_of(published_config("gemma4-e2b"), 2).of({}).weight_bytes, 4.56e9, 0.01e9);
}

TEST(ModelCost, of_a_cache_is_what_the_reference_reserves) {
  for (int thirds : {0, 1, 2}) {
    const auto checkpoint = bench_checkpoint(Family::gemma3n, thirds, 32);
    const Model<Float32> model(checkpoint);
    constexpr int length = 200;  // whole multiples are reserved; the window is 32
    auto cache = model.open({.batch = 1, .capacity = length, .margin = 0});
    model.extend(cache, {bench_prompt(model.config(), length)});
    double positions = 0;
    for (const LayerPlan& layer : model.plan())
      positions += double(cache.positions(layer)) * double(cache_bytes_per_token(layer, 4));
    EXPECT_EQ(ModelCost(model.config(), model.plan(), 4).cache_bytes(length), positions);
  }
}

TEST(ModelCost, without_sharing_every_layer_keeps_its_own) {
  const ModelCost none = cost_of(bench_config(Family::gemma3n, 0, 32), 4);
  const ModelCost two_thirds = cost_of(bench_config(Family::gemma3n, 2, 32), 4);
  EXPECT_EQ(none.cache_bytes(100), none.cache_bytes_unshared(100));
  EXPECT_EQ(two_thirds.cache_bytes_unshared(100), none.cache_bytes(100));
  EXPECT_EQ(two_thirds.cache_bytes(100) * 3, none.cache_bytes(100));
}

TEST(ModelCost, of_a_token_by_hand) {
  // One layer of Gemma 4: H = 4, one head of 4, feed-forward 8, vocabulary 10, nothing else.
  const nlohmann::json config = {{"model_type", "gemma4_text"},
                                 {"vocab_size", 10},
                                 {"vocab_size_per_layer_input", 10},
                                 {"hidden_size", 4},
                                 {"num_hidden_layers", 1},
                                 {"num_attention_heads", 1},
                                 {"num_key_value_heads", 1},
                                 {"head_dim", 4},
                                 {"global_head_dim", 4},
                                 {"intermediate_size", 8},
                                 {"hidden_size_per_layer_input", 0},
                                 {"num_kv_shared_layers", 0},
                                 {"layer_types", {"full_attention"}}};
  const CallCost cost = cost_of(config, 4).of({.past = 3});
  const double products = 4 * 4 * 4 + 3 * 4 * 8 + 10 * 4;  // q k v o, gate up down, head
  const double vectors = 4 + 4 * 4 + 2 * 4 + 1;         // final norm, four norms, q k norms, scalar
  EXPECT_EQ(cost.multiply_adds, products + 2 * 4 * 4);  // four keys are visible
  EXPECT_EQ(cost.weight_bytes, 4 * (products + vectors));
  EXPECT_EQ(cost.table_bytes, 4 * 4);
  EXPECT_EQ(cost.cache_read_bytes, 4 * 2 * 4 * 3);
  EXPECT_EQ(cost.cache_written_bytes, 4 * 2 * 4);
  EXPECT_EQ(cost.logit_bytes, 4 * 10);
}

TEST(ModelCost, of_skipping_consumers_is_less_only_where_rows_are_not_wanted) {
  const ModelCost cost = cost_of(bench_config(Family::gemma3n, 2, 32), 4);
  EXPECT_EQ(cost.of({.tokens = 1, .last_only = true}).multiply_adds,
            cost.of({.tokens = 1}).multiply_adds);
  const double all = cost.of({.tokens = 64, .last_only = true, .skip = false}).multiply_adds;
  EXPECT_LT(cost.of({.tokens = 64, .last_only = true}).multiply_adds, 0.5 * all);
  // What makes logits of a row, head and three unembeddings, is for the last row alone in both.
  EXPECT_EQ(cost.of({.tokens = 64}).multiply_adds - all, 63.0 * (64 * 32 + 3 * 32 * 32));
}

TEST(ModelCost, of_a_window_stops_growing) {
  const ModelCost cost = cost_of(bench_config(Family::gemma3n, 1, 32), 4);
  const double near = cost.of({.past = 40}).cache_read_bytes;
  const double far = cost.of({.past = 41}).cache_read_bytes;
  // One more position in each of the three full layers, in no sliding one.
  EXPECT_EQ(far - near, 3 * 2 * 2 * 8 * 4);
}

}  // namespace
}  // namespace kvconform::bench
