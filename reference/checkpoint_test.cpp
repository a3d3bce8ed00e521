// Checkpoints made by other software open as they are, and everything that can be wrong with one
// has an id of its own. Faults are planted into copies of one healthy model; add a case to the
// table `faults` below.
#include "reference/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
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

struct Fault {
  const char* what;
  const char* id;
  const char* of;  // oracle case that is damaged
  std::function<void(Parts&)> plant;
};

void rename(TensorTable& table, const std::string& from, const std::string& to) {
  table.tensors[to] = table.tensors.at(from);
  table.tensors.erase(from);
}

std::vector<Fault> faults() {
  return {
      {"config error before a weights error", "KV1016", "gemma3n-base",
       [](Parts& p) {
         p.config["sliding_window"] = -1;
         p.tensors.tensors.clear();
       }},
      {"no tensor at all", "KV1309", "gemma3n-base", [](Parts& p) { p.tensors.tensors.clear(); }},
      {"foreign tensors only", "KV1309", "gemma3n-base",
       [](Parts& p) {
         p.tensors.tensors.clear();
         p.tensors.add("transformer.wte.weight", Dtype::f32, {2, 2});
       }},
      {"two text models", "KV1309", "gemma3n-base",
       [](Parts& p) {
         p.tensors.tensors["embed_tokens.weight"] =
             p.tensors.tensors.at("model.embed_tokens.weight");
       }},
      {"no embeddings", "KV1310", "gemma3n-base",
       [](Parts& p) { p.tensors.tensors.erase("model.embed_tokens.weight"); }},
      {"a norm missing", "KV1310", "gemma4-base",
       [](Parts& p) { p.tensors.tensors.erase("model.norm.weight"); }},
      {"a tensor under a misspelt name", "KV1310", "gemma4-base",
       [](Parts& p) {
         rename(p.tensors, "model.layers.0.layer_scalar", "model.layers.0.layer_scalar.weight");
       }},
      {"a layer too many in the config", "KV1310", "gemma3n-base",
       [](Parts& p) {
         p.config["num_hidden_layers"] = 7;
         p.config["hidden_size_per_layer_input"] = 0;
         p.config["num_kv_shared_layers"] = 4;
         p.config["layer_types"].push_back("full_attention");
         p.config["intermediate_size"].push_back(12);
         p.config["activation_sparsity_pattern"].push_back(0.0);
       }},
      {"consumers that should own keys", "KV1310", "gemma4-base",
       [](Parts& p) { p.config["num_kv_shared_layers"] = 0; }},
      {"untied without a head", "KV1310", "gemma3n-base",
       [](Parts& p) { p.config["tie_word_embeddings"] = false; }},
      {"another vocabulary", "KV1311", "gemma3n-base",
       [](Parts& p) { p.config["vocab_size"] = 30; }},
      {"another head size", "KV1311", "gemma3n-base", [](Parts& p) { p.config["head_dim"] = 16; }},
      {"a transposed matrix", "KV1311", "gemma3n-base",
       [](Parts& p) {
         auto& shape = p.tensors.tensors.at("model.layers.0.mlp.up_proj.weight").shape;
         std::swap(shape[0], shape[1]);
       }},
      {"a scalar without its axis", "KV1311", "gemma4-base",
       [](Parts& p) { p.tensors.tensors.at("model.layers.0.layer_scalar").shape.clear(); }},
      {"an axis too many", "KV1311", "gemma4-base",
       [](Parts& p) { p.tensors.tensors.at("model.norm.weight").shape.push_back(1); }},
      {"a bias that the config does not have", "KV1313", "gemma3n-base",
       [](Parts& p) { p.tensors.add("model.layers.0.self_attn.k_norm.bias", Dtype::f32, {8}); }},
      {"a layer that the config does not have", "KV1313", "gemma3n-base",
       [](Parts& p) { p.tensors.add("model.layers.6.layer_scalar", Dtype::f32, {1}); }},
      {"a dead-looking name on an owner", "KV1313", "gemma4-k-eq-v",
       [](Parts& p) {
         for (int layer = 0; layer < 20; ++layer) {
           const std::string name =
               "model.layers." + std::to_string(layer) + ".self_attn.v_proj.weight";
           if (!p.tensors.tensors.contains(name))
             return void(p.tensors.add(name, Dtype::f32, {8, 16}));
         }
       }},
      {"text tensors under another prefix", "KV1313", "gemma3n-base",
       [](Parts& p) { p.tensors.add("layers.0.self_attn.k_norm.bias", Dtype::f32, {8}); }},
      {"two heads", "KV1313", "gemma3n-untied-bias",
       [](Parts& p) {
         p.tensors.tensors["model.lm_head.weight"] = p.tensors.tensors.at("lm_head.weight");
       }},
      {"tied, yet another head", "KV1314", "gemma3n-base",
       [](Parts& p) {
         p.tensors.add("lm_head.weight", Dtype::f32, {31, 16});
       }},
  };
}

TEST(Checkpoint, EveryFaultIsRefusedWithItsOwnId) {
  for (const Fault& fault : faults()) {
    Parts parts(fault.of);
    fault.plant(parts);
    EXPECT_EQ(id_of([&] { parts.open(); }), fault.id) << fault.what << "\n"
                                                      << message_of([&] { parts.open(); });
  }
}

TEST(Checkpoint, ADamagedTensorIsNamedTogetherWithWhatTheConfigExpects) {
  Parts parts("gemma3n-base");
  parts.config["vocab_size"] = 30;
  const std::string text = message_of([&] { parts.open(); });
  for (const char* part : {"model.embed_tokens.weight", "[31, 16]", "[30, 16]", "memory"})
    EXPECT_NE(text.find(part), text.npos) << text;
}

TEST(Checkpoint, EveryKnownPrefixIsStripped) {
  for (const std::string prefix :
       {"model.language_model.", "language_model.model.", "model.", "language_model.", ""}) {
    Parts parts("gemma4-base");
    TensorTable renamed;
    for (const auto& [name, view] : parts.tensors.tensors)
      renamed.tensors[prefix + name.substr(6)] = view;
    for (const char* foreign : {"vision_tower.a", "model.audio_tower.b", "model.embed_vision.c",
                                "language_model.embed_audio.d", "multi_modal_projector.e"})
      renamed.add(foreign, Dtype::f16, {3});
    const auto checkpoint = Checkpoint::from_tensors(parts.config, renamed);
    EXPECT_EQ(checkpoint->report().prefix, prefix);
    EXPECT_EQ(checkpoint->report().skipped.size(), 5U);
    EXPECT_TRUE(checkpoint->report().warnings.empty());
  }
}

TEST(Checkpoint, AnUntiedHeadIsBoundAndATiedOneIsTheEmbedding) {
  const auto untied = Checkpoint::open(golden / "oracle" / "gemma4-untied-bias");
  EXPECT_NE(untied->weights().lm_head.data, untied->weights().embed_tokens.data);
  EXPECT_TRUE(untied->weights().layers[0].q_bias && untied->weights().layers[0].o_bias);
  const auto tied = Checkpoint::open(golden / "oracle" / "gemma4-base");
  EXPECT_EQ(tied->weights().lm_head.data, tied->weights().embed_tokens.data);
}

TEST(Checkpoint, ATiedHeadThatRepeatsTheEmbeddingIsAcceptedWithAWarning) {
  Parts parts("gemma3n-base");
  parts.tensors.tensors["lm_head.weight"] = parts.tensors.tensors.at("model.embed_tokens.weight");
  EXPECT_EQ(parts.open()->report().warnings.size(), 1U);
}

TEST(Checkpoint, TensorsOutsideTheTextModelAreSkippedWithAWarning) {
  Parts parts("gemma3n-base");
  parts.tensors.add("optimizer.step", Dtype::f32, {1});
  const auto checkpoint = parts.open();
  EXPECT_EQ(checkpoint->report().skipped, std::vector<std::string>{"optimizer.step"});
  EXPECT_EQ(checkpoint->report().warnings.size(), 1U);
}

TEST(Checkpoint, DeadTensorsMayHaveAnyShapeSinceNothingReadsThem) {
  Parts parts("gemma4-base");
  const int consumer = 6;
  for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight", "k_proj.bias"})
    parts.tensors.add("model.layers." + std::to_string(consumer) + ".self_attn." + name,
                      Dtype::bf16, {1});
  EXPECT_EQ(parts.open()->report().dead.size(), 4U);
}

TEST(Checkpoint, HugeClaimsOfAConfigAreAnsweredFromTheFileWithoutAllocatingForThem) {
  Parts parts("gemma3n-base");
  parts.config["hidden_size"] = 1 << 24;
  parts.config["vocab_size"] = 1 << 24;
  EXPECT_EQ(id_of([&] { parts.open(); }), "KV1311");
}

// A copy of the sharded oracle case whose files can be damaged.
struct ShardedCopy {
  TemporaryFolder folder;
  json index;

  ShardedCopy() {
    fs::copy(golden / "oracle" / "gemma4-sharded", folder.path(),
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    index = json::parse(read_text(folder / "model.safetensors.index.json"));
  }
  std::string open_with_index(const json& changed) {
    write_text(folder / "model.safetensors.index.json", changed.dump());
    return id();
  }
  std::string id() {
    return id_of([&] { Checkpoint::open(folder.path()); });
  }
};

TEST(Checkpoint, ShardsAreJoinedAndEveryFaultOfTheirIndexIsRefused) {
  ShardedCopy copy;
  const std::string norm = "model.norm.weight";
  EXPECT_EQ(copy.id(), "none");
  for (const json& broken : {json(), json::array(), json::object(), json{{"weight_map", 3}},
                             json{{"weight_map", json::object()}}})
    EXPECT_EQ(copy.open_with_index(broken), "KV1304") << broken;
  json changed = copy.index;
  changed["weight_map"][norm] = 3;
  EXPECT_EQ(copy.open_with_index(changed), "KV1304");
  for (const char* path :
       {"../model-00001-of-00004.safetensors", "/etc/passwd", "..", "", "a/b", "a\\b"}) {
    changed["weight_map"][norm] = path;
    EXPECT_EQ(copy.open_with_index(changed), "KV1305") << path;
  }
  changed["weight_map"][norm] = std::string("a\0b", 3);
  EXPECT_EQ(copy.open_with_index(changed), "KV1305");
  changed["weight_map"][norm] = "model-00009-of-00004.safetensors";
  EXPECT_EQ(copy.open_with_index(changed), "KV1306");
  changed["weight_map"][norm] = "model-00001-of-00004.safetensors";
  EXPECT_EQ(copy.open_with_index(changed), "KV1307") << "in another shard than said";
  changed = copy.index;
  changed["weight_map"]["model.ghost"] = "model-00001-of-00004.safetensors";
  EXPECT_EQ(copy.open_with_index(changed), "KV1307");
  write_text(copy.folder / "model.safetensors.index.json", "{");
  EXPECT_EQ(copy.id(), "KV1304");
}

TEST(Checkpoint, ATensorInTwoShardsIsRefusedAndOneOutsideTheIndexIsUsedWithAWarning) {
  ShardedCopy copy;
  json changed = copy.index;
  changed["weight_map"].erase("model.norm.weight");
  EXPECT_EQ(copy.open_with_index(changed), "none");
  EXPECT_EQ(Checkpoint::open(copy.folder.path())->report().warnings.size(), 1U);

  fs::copy(copy.folder / "model-00001-of-00004.safetensors", copy.folder / "again.safetensors");
  changed["weight_map"]["model.layers.0.layer_scalar"] = "again.safetensors";
  EXPECT_EQ(copy.open_with_index(changed), "KV1308");
}

TEST(Checkpoint, FoldersWithoutTheirFilesSayWhatIsMissing) {
  TemporaryFolder folder;
  const fs::path whole = golden / "oracle" / "gemma3n-base";
  EXPECT_EQ(id_of([&] { Checkpoint::open(folder / "absent"); }), "KV1301");
  EXPECT_EQ(id_of([&] { Checkpoint::open(whole / "config.json"); }), "KV1301");
  EXPECT_EQ(id_of([&] { Checkpoint::open(folder.path()); }), "KV1302");
  fs::create_directory(folder / "config.json");
  EXPECT_EQ(id_of([&] { Checkpoint::open(folder.path()); }), "KV1302");
  fs::remove(folder / "config.json");
  fs::copy(whole / "config.json", folder / "config.json");
  write_text(folder / "pytorch_model.bin", "");
  const auto open = [&] { Checkpoint::open(folder.path()); };
  EXPECT_EQ(id_of(open), "KV1303");
  EXPECT_NE(message_of(open).find("pytorch_model.bin"), std::string::npos);
  write_text(folder / "model.safetensors", "");
  EXPECT_EQ(id_of(open), "KV1203");
}

TEST(Checkpoint, QuantisedWeightsAreRefusedByName) {
  TemporaryFolder folder;
  const std::string header =
      R"({"model.embed_tokens.weight":{"dtype":"I8","shape":[31,16],"data_offsets":[0,496]}})";
  std::uint64_t length = header.size();
  write_text(folder / "model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) +
                                               header + std::string(496, '\0'));
  fs::copy(golden / "oracle" / "gemma3n-base" / "config.json", folder / "config.json");
  const auto open = [&] { Checkpoint::open(folder.path()); };
  EXPECT_EQ(id_of(open), "KV1312");
  EXPECT_NE(message_of(open).find("I8"), std::string::npos);
}

TEST(Checkpoint, AConfigAndASingleFileOpenTogether) {
  const fs::path folder = golden / "oracle" / "gemma3n-base";
  const json config = json::parse(read_text(folder / "config.json"));
  EXPECT_EQ(Checkpoint::open(config, folder / "model.safetensors")->tensors().tensors.size(),
            Checkpoint::open(folder)->tensors().tensors.size());
  EXPECT_EQ(id_of([&] { Checkpoint::open(config, folder / "absent.safetensors"); }), "KV1201");
}

TEST(Checkpoint, AWrittenCheckpointIsTheOneThatWasRead) {
  TemporaryFolder folder;
  const auto before = Checkpoint::open(golden / "oracle" / "gemma4-hub-form");
  write_checkpoint(folder / "copy", before->config_json(), before->tensors());
  const auto after = Checkpoint::open(folder / "copy");
  EXPECT_EQ(after->config_json(), before->config_json());
  ASSERT_EQ(after->tensors().tensors.size(), before->tensors().tensors.size());
  for (const auto& [name, view] : before->tensors().tensors)
    EXPECT_EQ(std::memcmp(after->tensors().tensors.at(name).data, view.data,
                          static_cast<std::size_t>(view.count()) * 4),
              0);
  EXPECT_EQ(
      id_of([&] { write_checkpoint(folder / "copy", before->config_json(), before->tensors()); }),
      "KV1315");
}

}  // namespace
}  // namespace kvconform
