// What a config.json means and what is refused: every oracle configuration, published sizes,
// agreement of old and new spelling, and a table of refusals by id. To add a refusal, add a line to
// `refusals`.
#include "reference/model_config.h"

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
namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

json oracle_json(const std::string& name) {
  const fs::path path = fs::path(KVCONFORM_SOURCE_DIR) / "golden/oracle" / name / "config.json";
  return parse_config_text(read(path), path.string());
}

ModelConfig oracle(const std::string& name) {
  return parse_model_config(oracle_json(name));
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(error.problem().empty());
    EXPECT_FALSE(error.remedy().empty());
    return error.id() + ": " + error.problem();
  }
  return "accepted";
}

std::string refusal_of(const json& config) {
  return refusal([&] { parse_model_config(config); });
}

std::string refusal_of_text(const std::string& text) {
  return refusal([&] { parse_config_text(text, "test.json"); });
}

bool ignores(const ModelConfig& config, const std::string& field) {
  for (const auto& ignored : config.ignored) {
    if (ignored.field == field && !ignored.reason.empty()) return true;
  }
  return false;
}

// Everything but the notes.
void expect_same_model(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.layer_types, b.layer_types);
  EXPECT_EQ(a.head_dims, b.head_dims);
  EXPECT_EQ(a.key_value_heads, b.key_value_heads);
  EXPECT_EQ(a.sliding_window, b.sliding_window);
  EXPECT_EQ(a.sliding_rope, b.sliding_rope);
  EXPECT_EQ(a.full_rope, b.full_rope);
  EXPECT_EQ(a.num_kv_shared_layers, b.num_kv_shared_layers);
  EXPECT_EQ(a.kv_sharing_map, b.kv_sharing_map);
  EXPECT_EQ(a.intermediate_sizes, b.intermediate_sizes);
  EXPECT_EQ(a.activation_sparsity, b.activation_sparsity);
  EXPECT_EQ(a.final_logit_softcapping, b.final_logit_softcapping);
  EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
}

TEST(ModelConfig, ReadsEveryOracleConfiguration) {
  int count = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(KVCONFORM_SOURCE_DIR) / "golden/oracle")) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    ModelConfig config;
    ASSERT_NO_THROW(config = oracle(name));
    const auto layers = static_cast<std::size_t>(config.num_layers);
    EXPECT_EQ(config.layer_types.size(), layers);
    EXPECT_EQ(config.head_dims.size(), layers);
    EXPECT_EQ(config.key_value_heads.size(), layers);
    EXPECT_EQ(config.intermediate_sizes.size(), layers);
    EXPECT_EQ(config.activation_sparsity.size(), layers);
    EXPECT_TRUE(ignores(config, "architectures"));
    ++count;
  }
  EXPECT_GE(count, 49);
}

TEST(ModelConfig, AnEmptyGemma3nConfigHasTheDefaultsOfE4B) {
  const ModelConfig config = parse_model_config({{"model_type", "gemma3n_text"}});
  EXPECT_EQ(config.family, Family::gemma3n);
  EXPECT_EQ(config.vocab_size, 262400);
  EXPECT_EQ(config.vocab_size_per_layer_input, 262144);
  EXPECT_EQ(config.hidden_size, 2048);
  EXPECT_EQ(config.num_layers, 35);
  EXPECT_EQ(config.num_attention_heads, 8);
  EXPECT_EQ(config.key_value_heads, std::vector<int>(35, 2));
  EXPECT_EQ(config.head_dims, std::vector<int>(35, 256));
  EXPECT_EQ(config.intermediate_sizes, std::vector<int>(35, 16384));
  EXPECT_EQ(config.hidden_size_per_layer_input, 256);
  EXPECT_EQ(config.sliding_window, 512);
  EXPECT_EQ(config.num_kv_shared_layers, 15);
  EXPECT_EQ(config.final_logit_softcapping, 30.0);
  EXPECT_EQ(config.altup_num_inputs, 4);
  EXPECT_EQ(config.altup_active_idx, 0);
  EXPECT_TRUE(config.altup_correct_scale);
  EXPECT_EQ(config.laurel_rank, 64);
  EXPECT_EQ(config.activation_sparsity[9], 0.95);
  EXPECT_EQ(config.activation_sparsity[10], 0.0);
  EXPECT_EQ(config.layer_types[3], AttentionType::sliding);
  EXPECT_EQ(config.layer_types[4], AttentionType::full);
  EXPECT_EQ(config.full_rope, (Rope{Rope::Kind::plain, 1e6, 1.0, 1.0}));
  EXPECT_EQ(config.sliding_rope, (Rope{Rope::Kind::plain, 1e4, 1.0, 1.0}));
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
}

TEST(ModelConfig, AnEmptyGemma4ConfigHasTheDefaultsOfTransformers) {
  const ModelConfig config = parse_model_config({{"model_type", "gemma4_text"}});
  EXPECT_EQ(config.family, Family::gemma4);
  EXPECT_EQ(config.vocab_size, 262144);
  EXPECT_EQ(config.hidden_size, 2304);
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.intermediate_sizes, std::vector<int>(30, 9216));
  EXPECT_EQ(config.key_value_heads, std::vector<int>(30, 4));
  EXPECT_EQ(config.head_dims[4], 256);
  EXPECT_EQ(config.head_dims[5], 512);
  EXPECT_EQ(config.layer_types[5], AttentionType::full);
  EXPECT_EQ(config.num_kv_shared_layers, 0);
  EXPECT_EQ(config.final_logit_softcapping, std::nullopt);
  EXPECT_EQ(config.full_rope, (Rope{Rope::Kind::proportional, 1e6, 1.0, 0.25}));
  EXPECT_EQ(config.sliding_rope, (Rope{Rope::Kind::plain, 1e4, 1.0, 1.0}));
  EXPECT_FALSE(config.use_double_wide_mlp);
  EXPECT_FALSE(config.enable_moe_block);
}

TEST(ModelConfig, OldAndNewSpellingOfGemma3nRotaryParametersAgree) {
  json old_form = oracle_json("gemma3n-legacy-config");
  old_form["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  json new_form = old_form;
  for (const char* key : {"rope_theta", "rope_local_base_freq", "rope_scaling"})
    new_form.erase(key);
  new_form["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 20000.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 100.0}}}};
  expect_same_model(parse_model_config(old_form), parse_model_config(new_form));
  EXPECT_EQ(parse_model_config(old_form).full_rope, (Rope{Rope::Kind::linear, 20000.0, 4.0, 1.0}));

  json both = new_form;
  both.update(old_form);
  expect_same_model(parse_model_config(both), parse_model_config(new_form));
  both["rope_local_base_freq"] = 101.0;
  EXPECT_EQ(refusal_of(both).substr(0, 6), "KV1012");
}

TEST(ModelConfig, AMissingRotaryBaseOfGemma3nComesFromTheOldKey) {
  const json config = {{"model_type", "gemma3n_text"},
                       {"rope_theta", 5000.0},
                       {"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}};
  EXPECT_EQ(parse_model_config(config).full_rope.theta, 5000.0);
  EXPECT_EQ(parse_model_config(config).sliding_rope.theta, 1e4);
}

TEST(ModelConfig, OldAndNewSpellingOfGemma4HeadsAgree) {
  json old_form = oracle_json("gemma4-k-eq-v");
  const json new_form = old_form;
  const ModelConfig expected = parse_model_config(new_form);
  old_form.erase("per_layer_config");
  old_form["global_head_dim"] = 16;
  old_form["num_global_key_value_heads"] = 1;
  expect_same_model(parse_model_config(old_form), expected);
  EXPECT_EQ(expected.key_value_heads.front(), 2);
  EXPECT_EQ(expected.key_value_heads.back(), 1);

  old_form["attention_k_eq_v"] = false;  // the old key holds only together with it
  EXPECT_EQ(parse_model_config(old_form).key_value_heads.back(), 2);
  EXPECT_TRUE(ignores(parse_model_config(old_form), "num_global_key_value_heads"));
}

TEST(ModelConfig, AnEmptyPerLayerConfigWinsOverTheOldForm) {
  json config = {
      {"model_type", "gemma4_text"}, {"per_layer_config", json::object()}, {"global_head_dim", 64}};
  EXPECT_EQ(parse_model_config(config).head_dims, std::vector<int>(30, 256));
  EXPECT_TRUE(ignores(parse_model_config(config), "global_head_dim"));
  config.erase("per_layer_config");
  EXPECT_EQ(parse_model_config(config).head_dims[29], 64);
}

TEST(ModelConfig, TheHubFormEqualsTheFlatForm) {
  const json nested = oracle_json("gemma4-hub-form");
  expect_same_model(parse_model_config(nested), parse_model_config(nested.at("text_config")));
  EXPECT_TRUE(ignores(parse_model_config(nested), "text_config.dtype"));
}

TEST(ModelConfig, OtherTowersAndTokenIdsOfAMultimodalConfigAreIgnored) {
  json nested = oracle_json("gemma4-hub-form");
  nested["vision_config"] = {{"hidden_size", 3}, {"anything", {1, 2}}};
  nested["audio_config"] = nullptr;
  nested["boi_token_id"] = 5;
  nested["eoa_token_index"] = 6;
  nested["eos_token_id"] = {1, 106};
  nested["initializer_range"] = 0.02;
  nested["torch_dtype"] = "bfloat16";
  nested["vocab_size"] = 31;  // repeats text_config
  const ModelConfig config = parse_model_config(nested);
  for (const char* field : {"vision_config", "audio_config", "boi_token_id", "vocab_size"}) {
    EXPECT_TRUE(ignores(config, field)) << field;
  }
}

TEST(ModelConfig, TheOuterLevelDecidesTyingOnlyWhereTheInnerIsSilent) {
  json nested = oracle_json("gemma4-hub-form");
  nested["tie_word_embeddings"] = false;
  EXPECT_EQ(refusal_of(nested).substr(0, 6), "KV1012");
  nested["text_config"].erase("tie_word_embeddings");
  EXPECT_FALSE(parse_model_config(nested).tie_word_embeddings);
}

TEST(ModelConfig, TheLastLayerOfGemma4IsFullWhateverTheListSays) {
  json config = oracle_json("gemma4-hub-form").at("text_config");
  config["layer_types"].back() = "sliding_attention";
  const ModelConfig forced = parse_model_config(config);
  EXPECT_EQ(forced.layer_types.back(), AttentionType::full);
  EXPECT_EQ(forced.head_dims.back(), 16);
  EXPECT_TRUE(ignores(forced, "layer_types[6]"));

  json derived = {{"model_type", "gemma4_text"}, {"num_hidden_layers", 4}};
  EXPECT_EQ(parse_model_config(derived).layer_types.back(), AttentionType::full);
  EXPECT_EQ(parse_model_config(derived).layer_types.front(), AttentionType::sliding);
}

TEST(ModelConfig, AnExplicitMapWinsOverTheNumberOfSharedLayers) {
  json config = oracle_json("gemma3n-base");
  config["kv_sharing_map"] = {0, 0, 2, 3, 3, 3};
  const ModelConfig mapped = parse_model_config(config);
  EXPECT_EQ(mapped.kv_sharing_map, (std::vector<int>{0, 0, 2, 3, 3, 3}));
  EXPECT_EQ(mapped.num_kv_shared_layers, 0);
  EXPECT_TRUE(ignores(mapped, "num_kv_shared_layers"));
  config["kv_sharing_map"] = nullptr;
  EXPECT_EQ(parse_model_config(config).num_kv_shared_layers, 3);
}

TEST(ModelConfig, ExpertsAreReadOnlyWhereTheyAreSwitchedOn) {
  json config = oracle_json("gemma4-moe");
  EXPECT_EQ(parse_model_config(config).num_experts, 4);
  EXPECT_EQ(parse_model_config(config).top_k_experts, 2);
  EXPECT_EQ(parse_model_config(config).moe_intermediate_size, 10);
  config["enable_moe_block"] = false;
  EXPECT_EQ(parse_model_config(config).num_experts, 0);
}

TEST(ModelConfig, BidirectionalAttentionIsReadForGemma4Only) {
  EXPECT_TRUE(oracle("gemma4-bidirectional-all").bidirectional_all);
  EXPECT_FALSE(oracle("gemma4-bidirectional-vision").bidirectional_all);
  json config = {{"model_type", "gemma3n_text"}, {"use_bidirectional_attention", true}};
  EXPECT_FALSE(parse_model_config(config).bidirectional_all);
}

TEST(ModelConfig, AModelOfFullLayersNeedsNoWindow) {
  json config = oracle_json("gemma4-window4-all-full");
  config["sliding_window"] = nullptr;
  EXPECT_EQ(parse_model_config(config).sliding_window, 0);
}

struct Refusal {
  const char* id;
  const char* model;  ///< oracle case, or a model_type alone
  const char* patch;  ///< merged into its configuration (objects recursively; cannot write nulls)
  const char* named;  ///< what the error must mention
};

const Refusal refusals[] = {
    {"KV1004", "gemma3n_text", R"({"model_type": "llama"})", "llama"},
    {"KV1004", "gemma3n_text", R"({"model_type": "gemma3n"})", "text_config"},
    {"KV1004", "gemma3n_text", R"({"model_type": "gemma4_unified"})", "gemma4_unified"},
    {"KV1004", "gemma4-hub-form", R"({"model_type": "gemma3n"})", "gemma4_text"},
    {"KV1006", "gemma3n_text", R"({"model_type": 3})", "model_type"},
    {"KV1003", "gemma4-hub-form", R"({"text_config": 3})", "text_config is 3"},
    {"KV1005", "gemma3n_text", R"({"attention_sinks": 4})", "attention_sinks"},
    {"KV1005", "gemma4_text", R"({"rope_theta": 10000.0})", "rope_theta"},
    {"KV1005", "gemma4_text", R"({"activation_sparsity_pattern": [0.0]})", "activation_sparsity"},
    {"KV1005", "gemma3n_text", R"({"global_head_dim": 512})", "global_head_dim"},
    {"KV1005", "gemma3n_text", R"({"sliding_window_pattern": 5})", "sliding_window_pattern"},
    {"KV1005", "gemma4-hub-form", R"({"kv_sharing_map": [0]})", "kv_sharing_map"},
    {"KV1005", "gemma4-base", R"({"per_layer_config": {"2": {"intermediate_size": 3}}})",
     "per_layer_config.2.intermediate_size"},
    {"KV1006", "gemma3n_text", R"({"hidden_size": "2048"})", "\"2048\""},
    {"KV1006", "gemma3n_text", R"({"hidden_size": 2048.0})", "2048.0"},
    {"KV1006", "gemma3n_text", R"({"hidden_size": true})", "hidden_size"},
    {"KV1006", "gemma3n_text", R"({"hidden_size": [2048]})", "list of 1"},
    {"KV1006", "gemma4_text", R"({"intermediate_size": [2048]})", "intermediate_size"},
    {"KV1006", "gemma3n_text", R"({"attention_bias": 1})", "attention_bias"},
    {"KV1006", "gemma3n_text", R"({"rms_norm_eps": "1e-6"})", "rms_norm_eps"},
    {"KV1006", "gemma3n_text", R"({"layer_types": "full_attention"})", "layer_types"},
    {"KV1006", "gemma3n_text", R"({"activation_sparsity_pattern": 0.5})", "activation_sparsity"},
    {"KV1006", "gemma3n_text", R"({"kv_sharing_map": {"0": 1}})", "kv_sharing_map"},
    {"KV1006", "gemma3n-base", R"({"kv_sharing_map": [0, 1, 2, 3, 4, "4"]})", "kv_sharing_map[5]"},
    {"KV1007", "gemma3n_text", R"({"hidden_size": 0})", "hidden_size is 0"},
    {"KV1007", "gemma3n_text", R"({"hidden_size": -8})", "-8"},
    {"KV1007", "gemma3n_text", R"({"hidden_size": 16777217})", "16777217"},
    {"KV1007", "gemma3n_text", R"({"hidden_size": 18446744073709551615})", "18446744073709551615"},
    {"KV1007", "gemma3n_text", R"({"num_kv_shared_layers": 18446744073709551615})",
     "18446744073709551615"},
    {"KV1007", "gemma3n_text", R"({"hidden_size": 100000000000000000000000})", "e+22"},
    {"KV1007", "gemma3n_text", R"({"num_hidden_layers": 10001})", "10001"},
    {"KV1007", "gemma3n_text", R"({"rms_norm_eps": 0.0})", "rms_norm_eps"},
    {"KV1007", "gemma3n_text", R"({"final_logit_softcapping": 0})", "final_logit_softcapping"},
    {"KV1007", "gemma3n_text", R"({"rope_theta": -1.0})", "rope_theta"},
    {"KV1007", "gemma3n_text", R"({"altup_num_inputs": 0})", "altup_num_inputs"},
    {"KV1007", "gemma3n_text", R"({"altup_active_idx": 4})", "altup_active_idx"},
    {"KV1007", "gemma3n_text", R"({"laurel_rank": 0})", "laurel_rank"},
    {"KV1007", "gemma3n-sparsity", R"({"activation_sparsity_pattern": [0.0, 0.0, 0.0, 1.0]})",
     "activation_sparsity_pattern[3]"},
    {"KV1007", "gemma3n-sparsity", R"({"activation_sparsity_pattern": [-0.1, 0.0, 0.0, 0.0]})",
     "activation_sparsity_pattern[0]"},
    {"KV1007", "gemma4-moe", R"({"top_k_experts": 5})", "top_k_experts"},
    {"KV1007", "gemma4-partial-rotary",
     R"({"rope_parameters": {"full_attention": {"partial_rotary_factor": 1.5}}})",
     "rope_parameters.full_attention.partial_rotary_factor"},
    {"KV1008", "gemma3n_text", R"({"layer_types": []})", "layer_types has 0"},
    {"KV1008", "gemma3n_text", R"({"layer_types": ["full_attention"]})", "35"},
    {"KV1008", "gemma3n_text", R"({"intermediate_size": [8, 8]})", "intermediate_size"},
    {"KV1008", "gemma3n_text", R"({"activation_sparsity_pattern": [0.5]})", "has 1"},
    {"KV1009", "gemma4_text",
     R"({"num_hidden_layers": 2, "layer_types": ["chunked_attention", "full_attention"]})",
     "layer_types[0] is \"chunked_attention\""},
    {"KV1010", "gemma3n_text", R"({"hidden_activation": "silu"})", "silu"},
    {"KV1010", "gemma4_text", R"({"hidden_act": "gelu"})", "gelu"},
    {"KV1010", "gemma4_text", R"({"quantization_config": {"bits": 4}})", "quantization_config"},
    {"KV1010", "gemma4-hub-form", R"({"quantization": {"bits": 4}})", "quantization"},
    {"KV1010", "gemma4_text", R"({"is_causal": false})", "is_causal"},
    {"KV1010", "gemma4-bidirectional-all", R"({"is_causal": true})", "is_causal"},
    {"KV1010", "gemma4_text", R"({"use_bidirectional_attention": "some"})", "some"},
    {"KV1010", "gemma4_text", R"({"is_encoder_decoder": true})", "is_encoder_decoder"},
    {"KV1010", "gemma4_text", R"({"auto_map": {"AutoModel": "x.Y"}})", "auto_map"},
    {"KV1011", "gemma3n-legacy-config", R"({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}})",
     "yarn"},
    {"KV1011", "gemma3n-base",
     R"({"rope_parameters": {"full_attention": {"rope_type": "llama3"}}})", "llama3"},
    {"KV1011", "gemma4-base",
     R"({"rope_parameters": {"full_attention": {"rope_type": "dynamic"}}})", "dynamic"},
    {"KV1011", "gemma3n_text", R"({"rope_scaling": {"type": "linear"}})", "factor is missing"},
    {"KV1011", "gemma3n_text", R"({"rope_scaling": {"factor": 8.0}})", "factor is 8"},
    {"KV1011", "gemma4_text", R"({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}})",
     "sliding_attention is missing"},
    {"KV1011", "gemma4_text",
     R"({"rope_parameters": {"sliding_attention": {}, "full_attention": {"rope_theta": 1e6}}})",
     "sliding_attention.rope_theta is missing"},
    {"KV1005", "gemma3n_text",
     R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})",
     "rope_parameters.rope_t"},
    {"KV1005", "gemma3n-base",
     R"({"rope_parameters": {"full_attention": {"attention_factor": 2.0}}})", "attention_factor"},
    {"KV1003", "gemma4_text", R"({"rope_parameters": []})", "rope_parameters"},
    {"KV1012", "gemma3n-base", R"({"rope_theta": 5.0})", "rope_theta"},
    {"KV1012", "gemma3n-base", R"({"rope_scaling": {"type": "linear", "factor": 2.0}})",
     "rope_scaling"},
    {"KV1012", "gemma3n_text", R"({"rope_scaling": {"type": "linear", "rope_type": "default"}})",
     "differ"},
    {"KV1012", "gemma4-hub-form", R"({"vocab_size": 32})", "32 outside and 31 inside"},
    {"KV1013", "gemma3n_text", R"({"num_key_value_heads": 3})", "8 query heads over 3"},
    {"KV1013", "gemma4_text", R"({"attention_k_eq_v": true, "num_global_key_value_heads": 3})",
     "layer 5"},
    {"KV1014", "gemma3n_text", R"({"head_dim": 7})", "7"},
    {"KV1014", "gemma4_text", R"({"global_head_dim": 9})", "layer 5"},
    {"KV1015", "gemma3n_text", R"({"hidden_size": 2049})", "2049"},
    {"KV1016", "gemma3n_text", R"({"sliding_window": 0})", "sliding_window is 0"},
    {"KV1016", "gemma4_text", R"({"sliding_window": -1})", "sliding_window is -1"},
    {"KV1017", "gemma4_text", R"({"enable_moe_block": true})", "num_experts is missing"},
    {"KV1017", "gemma4-base", R"({"enable_moe_block": true})", "num_experts is null"},
    {"KV1018", "gemma3n_text", R"({"hidden_size_per_layer_input": 16777216,
      "num_hidden_layers": 10000})",
     "per-layer input width"},
    {"KV1018", "gemma4_text", R"({"num_attention_heads": 65536, "head_dim": 65536})", "head size"},
    {"KV1019", "gemma4_text", R"({"per_layer_config": {"30": {}}})", "30"},
    {"KV1019", "gemma4_text", R"({"per_layer_config": {"-1": {}}})", "-1"},
    {"KV1019", "gemma4_text", R"({"per_layer_config": {"05": {}}})", "05"},
    {"KV1019", "gemma4_text", R"({"per_layer_config": {"": {}}})", "per_layer_config"},
    {"KV1019", "gemma4_text", R"({"per_layer_config": {"99999999999": {}}})", "99999999999"},
};

json base_of(const std::string& model) {
  return model.find('-') == std::string::npos ? json{{"model_type", model}} : oracle_json(model);
}

TEST(ModelConfig, EachRefusalHasItsIdAndNamesThingAndValue) {
  for (const Refusal& expected : refusals) {
    SCOPED_TRACE(std::string(expected.model) + " with " + expected.patch);
    json config = base_of(expected.model);
    config.merge_patch(json::parse(expected.patch));
    const std::string seen = refusal_of(config);
    EXPECT_EQ(seen.substr(0, 6), expected.id) << seen;
    EXPECT_NE(seen.find(expected.named), std::string::npos) << seen;
  }
}

TEST(ModelConfig, TheRangeOfferedForAWindowIsTheOneThatIsAccepted) {
  try {
    parse_model_config({{"model_type", "gemma3n_text"}, {"sliding_window", 4000000000}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), "KV1007");
    EXPECT_NE(error.remedy().find("[1, 1073741824]"), std::string::npos) << error.remedy();
  }
}

TEST(ModelConfig, NullIsRefusedWhereANumberIsNeeded) {
  for (const char* field : {"hidden_size", "num_hidden_layers", "head_dim", "num_kv_shared_layers",
                            "rms_norm_eps", "tie_word_embeddings", "intermediate_size"}) {
    json config = {{"model_type", "gemma3n_text"}, {field, nullptr}};
    EXPECT_EQ(refusal_of(config).substr(0, 6), "KV1006") << field;
  }
  json config = {{"model_type", "gemma3n_text"}, {"sliding_window", nullptr}};
  EXPECT_EQ(refusal_of(config).substr(0, 6), "KV1016");
}

TEST(ModelConfig, NotANumberIsRefusedInAValueBuiltByAProgram) {
  json config = {{"model_type", "gemma3n_text"}, {"rms_norm_eps", std::nan("")}};
  EXPECT_EQ(refusal_of(config).substr(0, 6), "KV1007");
  config = {{"model_type", "gemma3n_text"}, {"hidden_size", std::nan("")}};
  EXPECT_EQ(refusal_of(config).substr(0, 6), "KV1006");
}

TEST(ModelConfig, WhatIsNoObjectIsRefused) {
  EXPECT_EQ(refusal_of(json::array()).substr(0, 6), "KV1003");
  EXPECT_EQ(refusal_of(json()).substr(0, 6), "KV1003");
  EXPECT_EQ(refusal_of(json::object()).substr(0, 6), "KV1004");
}

TEST(ConfigText, BadJsonIsRefusedWithItsOrigin) {
  for (const char* text :
       {"", "{", "{\"a\": 1,}", "{\"a\": NaN}", "{\"a\": 1e999}", "{} x", "\xff"}) {
    const std::string seen = refusal_of_text(text);
    EXPECT_EQ(seen.substr(0, 6), "KV1001") << text;
    EXPECT_NE(seen.find("test.json"), std::string::npos) << seen;
  }
}

TEST(ConfigText, DuplicateKeysAreRefusedAtEveryLevelAndInEverySpelling) {
  EXPECT_EQ(refusal_of_text(R"({"a": 1, "a": 1})").substr(0, 6), "KV1002");
  EXPECT_EQ(refusal_of_text(R"({"a": 1, "\u0061": 2})").substr(0, 6), "KV1002");
  EXPECT_EQ(refusal_of_text(R"({"b": [{"a": 1, "c": {}, "a": 2}]})").substr(0, 6), "KV1002");
  EXPECT_EQ(refusal_of_text(R"({"a": {"a": {"b": 1}}, "b": [{"a": 1}, {"a": 2}]})"), "accepted");
}

TEST(ConfigText, DeepNestingIsRefusedBeforeItCostsStack) {
  const auto nested = [](int levels, const char* open, const char* close) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += open;
    for (int i = 0; i < levels; ++i) text += close;
    return refusal_of_text(text);
  };
  EXPECT_EQ(nested(32, "[", "]"), "accepted");
  for (int levels : {33, 1000000}) {
    EXPECT_NE(nested(levels, "[", "]").find("KV1001: test.json nests deeper"), std::string::npos);
  }
  EXPECT_NE(nested(33, "{\"a\":[", "]}").find("nests deeper"), std::string::npos);
}

TEST(ConfigText, ATextFarLargerThanAnyConfigurationIsRefused) {
  EXPECT_EQ(refusal_of_text(std::string((16 << 20) + 1, ' ')).substr(0, 6), "KV1001");
}

}  // namespace
}  // namespace kvconform
