// Who reads whose keys and values: published sizes, maps of every known design, each rule with its
// own id, and the numbers that follow (slots, last readers, doubled widths, bytes a token).
#include "reference/layer_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Plan = std::vector<LayerPlan>;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Layer types as a word: "sf" is one sliding and one full layer.
ModelConfig model(const std::string& types, json more = json::object()) {
  json config = {{"model_type", "gemma3n_text"},
                 {"num_hidden_layers", types.size()},
                 {"num_kv_shared_layers", 0}};
  for (char type : types) {
    config["layer_types"].push_back(type == 's' ? "sliding_attention" : "full_attention");
  }
  config.update(more);
  return parse_model_config(config);
}

Plan mapped(const std::string& types, std::vector<int> map) {
  return plan_layers(model(types, {{"kv_sharing_map", map}}));
}

template <typename Value>
std::vector<Value> column(const Plan& plan, Value LayerPlan::*field) {
  std::vector<Value> values;
  for (const LayerPlan& layer : plan) values.push_back(layer.*field);
  return values;
}

std::string roles(const Plan& plan) {
  std::string word;
  for (const LayerPlan& layer : plan) word += to_string(layer.role)[0];
  return word;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(error.remedy().empty());
    return error.id();
  }
  return "accepted";
}

struct Published {
  const char *name, *config;
  int sliding_producer, full_producer;  ///< -1: nothing is shared
  int slots;
};

const Published published[] = {
    {"3n E2B", R"({"model_type": "gemma3n_text", "num_hidden_layers": 30, "intermediate_size": 8192,
      "num_kv_shared_layers": 10})",
     18, 19, 20},
    {"3n E4B", R"({"model_type": "gemma3n_text"})", 18, 19, 20},
    {"4 E2B", R"({"model_type": "gemma4_text", "num_hidden_layers": 35, "hidden_size": 1536,
      "intermediate_size": 6144, "num_key_value_heads": 1, "num_kv_shared_layers": 20,
      "use_double_wide_mlp": true, "layer_types": "every fifth"})",
     13, 14, 15},
    {"4 E4B", R"({"model_type": "gemma4_text", "num_hidden_layers": 42, "hidden_size": 2560,
      "intermediate_size": 10240, "num_key_value_heads": 2, "num_kv_shared_layers": 18})",
     22, 23, 24},
    {"4 26B-A4B", R"({"model_type": "gemma4_text", "num_hidden_layers": 30, "hidden_size": 2816,
      "intermediate_size": 2112, "num_attention_heads": 16, "num_key_value_heads": 8,
      "num_global_key_value_heads": 2, "attention_k_eq_v": true, "sliding_window": 1024,
      "hidden_size_per_layer_input": 0, "enable_moe_block": true, "num_experts": 128,
      "top_k_experts": 8, "moe_intermediate_size": 704})",
     -1, -1, 30},
    {"4 31B", R"({"model_type": "gemma4_text", "num_hidden_layers": 60, "hidden_size": 5376,
      "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 16,
      "num_global_key_value_heads": 4, "attention_k_eq_v": true, "sliding_window": 1024,
      "hidden_size_per_layer_input": 0})",
     -1, -1, 60},
};

Plan plan_of(const Published& size) {
  json config = json::parse(size.config);
  if (config.contains("layer_types")) {
    config["layer_types"] = json::array();
    for (int i = 1; i <= config["num_hidden_layers"]; ++i) {
      config["layer_types"].push_back(i % 5 == 0 ? "full_attention" : "sliding_attention");
    }
  }
  return plan_layers(parse_model_config(config));
}

TEST(LayerPlan, PublishedModelsHaveThePublishedProducers) {
  for (const Published& size : published) {
    SCOPED_TRACE(size.name);
    const Plan plan = plan_of(size);
    EXPECT_EQ(cache_slots(plan), size.slots);
    for (const LayerPlan& layer : plan) {
      const int producer =
          layer.type == AttentionType::sliding ? size.sliding_producer : size.full_producer;
      if (layer.role == Role::consumer) {
        EXPECT_EQ(layer.owner, producer) << layer.layer;
      }
      EXPECT_EQ(layer.role == Role::producer, layer.layer == producer) << layer.layer;
    }
  }
}

TEST(LayerPlan, TheDetailsOfGemma4E2B) {
  const Plan plan = plan_of(published[2]);
  EXPECT_EQ(plan[14].head_dim, 512);
  EXPECT_EQ(plan[14].window, 0);
  EXPECT_EQ(plan[14].last_reader, 34);
  EXPECT_EQ(plan[14].intermediate_size, 6144);
  EXPECT_EQ(plan[15].intermediate_size, 12288);  // a consumer of layer 13
  EXPECT_EQ(plan[13].head_dim, 256);
  EXPECT_EQ(plan[13].window, 512);
  EXPECT_EQ(plan[13].last_reader, 33);
  EXPECT_EQ(plan[15].cache_slot, 13);
  EXPECT_EQ(cache_bytes_per_token(plan[14], 2), 2 * 1 * 512 * 2);
  EXPECT_EQ(cache_bytes_per_token(plan[13], 4), 2 * 1 * 256 * 4);
  EXPECT_EQ(cache_bytes_per_token(plan[15], 4), 0);
}

TEST(LayerPlan, OnlyFullLayersTakeValuesFromKeys) {
  const Plan plan = plan_of(published[5]);
  EXPECT_FALSE(plan[4].values_from_keys);
  EXPECT_EQ(plan[4].key_value_heads, 16);
  EXPECT_TRUE(plan[5].values_from_keys);
  EXPECT_EQ(plan[5].key_value_heads, 4);
  EXPECT_EQ(plan[5].rope.kind, Rope::Kind::proportional);
  EXPECT_EQ(plan[4].rope.kind, Rope::Kind::plain);
}

TEST(LayerPlan, EveryOracleConfigurationHasAPlan) {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(KVCONFORM_SOURCE_DIR) + "/golden/oracle")) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path());
    const std::string text = read(entry.path() / "config.json");
    EXPECT_NO_THROW(plan_layers(parse_model_config(parse_config_text(text, "config.json"))));
  }
}

TEST(LayerPlan, TheGemmaTailAndItsMapGiveTheSamePlan) {
  const Plan tail = plan_layers(model("ssfsfsf", {{"num_kv_shared_layers", 3}}));
  const Plan map = mapped("ssfsfsf", {0, 1, 2, 3, 2, 3, 2});
  EXPECT_EQ(column(tail, &LayerPlan::owner), column(map, &LayerPlan::owner));
  EXPECT_EQ(column(tail, &LayerPlan::cache_slot), column(map, &LayerPlan::cache_slot));
  EXPECT_EQ(column(tail, &LayerPlan::last_reader), column(map, &LayerPlan::last_reader));
  EXPECT_EQ(column(tail, &LayerPlan::owner), (std::vector<int>{0, 1, 2, 3, 2, 3, 2}));
  EXPECT_EQ(column(tail, &LayerPlan::last_reader), (std::vector<int>{0, 1, 6, 5, 4, 5, 6}));
  EXPECT_EQ(roles(tail), "iippccc");
}

TEST(LayerPlan, GroupsOfTwoAsInCrossLayerAttention) {
  const Plan plan = mapped("ffffff", {0, 0, 2, 2, 4, 4});
  EXPECT_EQ(roles(plan), "pcpcpc");
  EXPECT_EQ(column(plan, &LayerPlan::cache_slot), (std::vector<int>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(cache_slots(plan), 3);
}

TEST(LayerPlan, AYocoTailHasOneProducer) {
  const Plan plan = mapped("ssffff", {0, 1, 2, 2, 2, 2});
  EXPECT_EQ(roles(plan), "iipccc");
  EXPECT_EQ(plan[2].last_reader, 5);
}

TEST(LayerPlan, OwnersNeedNotBeAPrefixNorGroupsDisjoint) {
  const Plan plan = mapped("fsfsf", {0, 1, 0, 3, 0});
  EXPECT_EQ(roles(plan), "picic");
  EXPECT_EQ(column(plan, &LayerPlan::cache_slot), (std::vector<int>{0, 1, 0, 2, 0}));
}

TEST(LayerPlan, ConsumersOfAMapAreDoubleWideWhereverTheyStand) {
  json config = {{"model_type", "gemma4_text"},
                 {"num_hidden_layers", 4},
                 {"use_double_wide_mlp", true},
                 {"intermediate_size", 12},
                 {"kv_sharing_map", {0, 0, 2, 3}}};
  EXPECT_EQ(column(plan_layers(parse_model_config(config)), &LayerPlan::intermediate_size),
            (std::vector<int>{12, 24, 12, 12}));
}

TEST(LayerPlan, EachRuleOfTheTailHasItsId) {
  const auto tail = [](const std::string& types, int shared) {
    return refusal([&] { plan_layers(model(types, {{"num_kv_shared_layers", shared}})); });
  };
  EXPECT_EQ(tail("sfsf", -1), "KV1103");
  EXPECT_EQ(tail("sfsf", 5), "KV1104");
  EXPECT_EQ(tail("sfsf", 4), "KV1105");
  EXPECT_EQ(tail("sssf", 1), "KV1106");
  EXPECT_EQ(tail("ffsf", 3), "KV1106");
  EXPECT_EQ(tail("sfsf", 2), "accepted");
  EXPECT_EQ(tail("sfff", 2), "accepted");  // nothing sliding is shared
  EXPECT_EQ(tail("ffff", 3), "accepted");
}

TEST(LayerPlan, AShortGemma3nConfigWithoutTheFieldMeansFifteenSharedLayers) {
  const json config = {{"model_type", "gemma3n_text"}, {"num_hidden_layers", 10}};
  EXPECT_EQ(refusal([&] { plan_layers(parse_model_config(config)); }), "KV1104");
}

TEST(LayerPlan, EachRuleOfTheMapHasItsId) {
  const auto map = [](const std::string& types, std::vector<int> owners) {
    return refusal([&] { mapped(types, owners); });
  };
  EXPECT_EQ(map("ffff", {0, 1, 2}), "KV1107");
  EXPECT_EQ(map("ffff", {0, 1, 2, 3, 4}), "KV1107");
  EXPECT_EQ(map("ffff", {}), "KV1107");
  EXPECT_EQ(map("ffff", {0, 1, 2, 4}), "KV1108");
  EXPECT_EQ(map("ffff", {0, -1, 2, 3}), "KV1108");
  EXPECT_EQ(map("ffff", {0, 2, 2, 3}), "KV1110");
  EXPECT_EQ(map("ffff", {0, 0, 1, 3}), "KV1111");
  EXPECT_EQ(map("fsff", {0, 0, 2, 3}), "KV1112");
  EXPECT_EQ(map("ffff", {0, 0, 0, 0}), "accepted");
}

TEST(LayerPlan, ReadersMustHaveTheShapeOfTheirOwner) {
  const auto per_layer = [](json last) {
    const json config = {{"model_type", "gemma4_text"},
                         {"num_hidden_layers", 2},
                         {"layer_types", {"full_attention", "full_attention"}},
                         {"num_kv_shared_layers", 1},
                         {"per_layer_config", {{"1", last}}}};
    return refusal([&] { plan_layers(parse_model_config(config)); });
  };
  EXPECT_EQ(per_layer({{"head_dim", 128}}), "KV1113");
  EXPECT_EQ(per_layer({{"num_key_value_heads", 2}}), "KV1114");
  EXPECT_EQ(per_layer(json::object()), "accepted");
}

TEST(LayerPlan, APlanMadeByHandIsHeldToTheSameRules) {
  const Plan good = mapped("ssff", {0, 0, 2, 2});
  EXPECT_NO_THROW(check_sharing(good));
  const auto broken = [&](const std::function<void(Plan&)>& fault) {
    Plan plan = good;
    fault(plan);
    return refusal([&] { check_sharing(plan); });
  };
  EXPECT_EQ(broken([](Plan& p) { p[3].rope.theta = 7.0; }), "KV1115");
  EXPECT_EQ(broken([](Plan& p) { p[1].window = 7; }), "KV1116");
  EXPECT_EQ(broken([](Plan& p) { p[1].head_dim = 2; }), "KV1113");
  EXPECT_EQ(broken([](Plan& p) { p[1].owner = 9; }), "KV1108");
  EXPECT_EQ(broken([](Plan& p) { p[1].owner = -1; }), "KV1108");
}

TEST(LayerPlan, AConfigurationMadeByHandMustBeComplete) {
  ModelConfig config = model("sfsf");
  config.head_dims.pop_back();
  EXPECT_EQ(refusal([&] { plan_layers(config); }), "KV1101");
  EXPECT_EQ(refusal([] { plan_layers(ModelConfig{}); }), "KV1101");
  config = model("sfss");
  config.family = Family::gemma4;
  EXPECT_EQ(refusal([&] { plan_layers(config); }), "KV1102");
}

}  // namespace
}  // namespace kvconform
