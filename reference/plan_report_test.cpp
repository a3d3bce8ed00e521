// The printed plan: aligned columns, honest byte counts, every note shown, and JSON with stable
// names.
#include "reference/plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace kvconform {
namespace {

using nlohmann::json;

ModelConfig small(json more = json::object()) {
  json config = {
      {"model_type", "gemma4_text"}, {"num_hidden_layers", 6},  {"num_attention_heads", 4},
      {"num_key_value_heads", 2},    {"head_dim", 8},           {"global_head_dim", 16},
      {"num_kv_shared_layers", 2},   {"intermediate_size", 12}, {"use_double_wide_mlp", true},
      {"sliding_window", 10},        {"use_cache", true}};
  for (const char* type : {"s", "f", "s", "f", "s", "f"}) {
    config["layer_types"].push_back(*type == 's' ? "sliding_attention" : "full_attention");
  }
  config.update(more);
  return parse_model_config(config);
}

std::string table(const ModelConfig& config) {
  return plan_table(config, plan_layers(config));
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PlanReport, CountsTheBytesOfOwnersOnly) {
  // Owners: two sliding layers of 2·2·8 numbers a token, two full ones of 2·2·16.
  const CacheCost cost = cache_cost(plan_layers(small()), 2);
  EXPECT_EQ(cost.sliding_layers, 2 * (2 * 2 * 8) * 2);
  EXPECT_EQ(cost.full_layers, 2 * (2 * 2 * 16) * 2);
  EXPECT_EQ(cost.unshared, 3 * (2 * 2 * 8 + 2 * 2 * 16) * 2);
  EXPECT_DOUBLE_EQ(cost.saved_percent(), 100.0 / 3.0);
  EXPECT_EQ(cache_cost({}, 2).saved_percent(), 0.0);
}

TEST(PlanReport, PrintsARowForEachLayerWithAllItsFacts) {
  const auto rows = lines(table(small()));
  ASSERT_GE(rows.size(), 9u);
  EXPECT_EQ(rows[0], "gemma4_text: 6 layers");
  EXPECT_EQ(rows[2],
            "layer  type     role         owner  slot  heads q/kv  head size  window  rotary"
            "                    feed-forward");
  EXPECT_EQ(rows[3],
            "0      sliding  independent  0      0     4/2         8          10      default 10000"
            "             12");
  EXPECT_EQ(rows[6],
            "3      full     producer     3      3     4/2         16         -       proportional"
            " 1e+06 x0.25  12");
  EXPECT_EQ(rows[8],
            "5      full     consumer     3      3     4/2         16         -       proportional"
            " 1e+06 x0.25  24");
}

TEST(PlanReport, ColumnsStandUnderTheirHeadings) {
  const auto rows = lines(table(parse_model_config({{"model_type", "gemma3n_text"}})));
  const std::size_t role = rows[2].find("role"), rotary = rows[2].find("rotary");
  for (int i = 0; i < 35; ++i) {
    const std::string& row = rows[3 + i];
    EXPECT_EQ(row.find("default"), rotary) << row;
    EXPECT_NE(row[role], ' ') << row;
    EXPECT_EQ(row[role - 1], ' ') << row;
  }
}

TEST(PlanReport, SaysWhatSharingSavesAndWhatTheWindowBounds) {
  const std::string text = table(small());
  EXPECT_TRUE(says(text, "4 slots for 6 layers (2 producers, 2 consumers, 2 independent)")) << text;
  EXPECT_TRUE(says(text, "bfloat16  384 bytes a token, 576 without sharing (33.3 % saved)"))
      << text;
  EXPECT_TRUE(says(text, "float32   768 bytes a token, 1152 without sharing (33.3 % saved)"))
      << text;
  EXPECT_TRUE(says(text, "window of 10 tokens: at most 1280 (bfloat16), 2560 (float32)")) << text;
  EXPECT_TRUE(says(table(small({{"layer_types", json(6, "full_attention")}})), "no layer slides"));
}

TEST(PlanReport, ListsIgnoredFieldsAndWarnings) {
  EXPECT_TRUE(says(table(small()), "use_cache"));
  const auto warns = [](json more, const std::string& part) {
    const ModelConfig config = small(more);
    return says(plan_json(config, plan_layers(config))["warnings"].dump(), part) &&
           says(table(config), part);
  };
  EXPECT_FALSE(says(table(small()), "warnings"));
  EXPECT_TRUE(warns({{"use_bidirectional_attention", "all"}}, "bidirectional"));
  EXPECT_TRUE(warns({{"kv_sharing_map", {0, 1, 0, 1, 0, 1}}}, "extension"));
  EXPECT_TRUE(warns({{"sliding_window", 1}}, "window 1"));
  EXPECT_TRUE(warns({{"hidden_size_per_layer_input", 0}}, "without per-layer inputs"));
  EXPECT_TRUE(warns({{"vocab_size_per_layer_input", 9}}, "errors in Gemma 4"));
}

TEST(PlanReport, ValuesTakenFromKeysAreMarked) {
  EXPECT_TRUE(says(table(small({{"attention_k_eq_v", true}})), "4/2 v=k"));
}

TEST(PlanReport, JsonHasStableNamesAndTheSameNumbers) {
  const ModelConfig config = small();
  const json plan = plan_json(config, plan_layers(config));
  EXPECT_EQ(plan["family"], "gemma4_text");
  EXPECT_EQ(plan["num_layers"], 6);
  ASSERT_EQ(plan["layers"].size(), 6u);
  EXPECT_EQ(plan["layers"][5],
            json::parse(R"({"layer": 5, "type": "full_attention", "role": "consumer",
    "owner": 3, "cache_slot": 3, "last_reader": 5, "query_heads": 4, "key_value_heads": 2,
    "head_dim": 16, "window": null, "rope": {"type": "proportional", "theta": 1000000.0, "factor": 1.0,
    "partial_rotary_factor": 0.25}, "values_from_keys": false, "intermediate_size": 24,
    "activation_sparsity": 0.0})"));
  EXPECT_EQ(plan["layers"][0]["window"], 10);
  EXPECT_EQ(plan["cache"]["slots"], 4);
  EXPECT_EQ(plan["cache"]["sliding_window"], 10);
  EXPECT_EQ(plan["cache"]["bfloat16"], json::parse(R"({"bytes_per_token": 384,
    "bytes_per_token_unshared": 576, "bytes_per_token_full_layers": 256,
    "bytes_per_token_sliding_layers": 128, "sliding_layers_at_most": 1280})"));
  EXPECT_EQ(plan["cache"]["float32"]["bytes_per_token"], 768);
  EXPECT_EQ(plan["ignored"][0]["field"], "use_cache");
  EXPECT_TRUE(plan["warnings"].empty());
}

}  // namespace
}  // namespace kvconform
