// Binding stored tensors to the weights of a model, and the rules for everything else that a file
// may hold:
//
// - text model, expected: bound, after its shape and number format were checked;
// - projections of consumers: listed as dead, never read;
// - other towers (vision, audio, …): listed as skipped;
// - text model, not expected: refused by name, since a tensor that other programs would use changes
// the maths;
// - anything else outside the text model: skipped with a warning.
#include "reference/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "reference/checkpoint_files.h"
#include "reference/counted.h"
#include "reference/error.h"
#include "reference/safetensors_header.h"
#include "reference/tensor_slots.h"

namespace kvconform {

namespace {

// Longer ones first: "model." also begins "model.language_model.".
constexpr std::array<std::string_view, 5> prefixes = {
    "model.language_model.", "language_model.model.", "model.", "language_model.", ""};
constexpr std::array<std::string_view, 5> towers = {"vision_tower", "audio_tower", "embed_vision",
                                                    "embed_audio", "multi_modal_projector"};
constexpr std::array<std::string_view, 9> text_parts = {
    "embed_tokens", "embed_tokens_per_layer",     "layers",
    "norm",         "per_layer_model_projection", "per_layer_projection_norm",
    "lm_head",      "altup_projections",          "altup_unembed_projections"};

std::string_view without_prefix(std::string_view name) {
  for (std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

template <std::size_t count>
bool begins_with_part(std::string_view name, const std::array<std::string_view, count>& parts) {
  return std::find(parts.begin(), parts.end(), name.substr(0, name.find('.'))) != parts.end();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class Binder {
 public:
  Binder(const ModelConfig& config, const std::vector<LayerPlan>& plan, const StoredTensors& stored)
      : config_(config), plan_(plan), stored_(stored) {}

  void bind() {
    report.warnings = stored_.warnings;
    report.prefix = find_prefix();
    for (const ModelSlot& slot : model_slots(config_))
      if (slot.view != &Weights::lm_head)
        weights.*slot.view = take(report.prefix + slot.name, slot.shape);
    bind_altup_projections();
    for (const LayerPlan& layer : plan_) bind_layer(layer);
    bind_head();
    throw_if_missing();
    sort_leftovers();
  }

  Weights weights;
  LoadReport report;

 private:
  bool is_stored(const std::string& name) const {
    return stored_.table.tensors.contains(name) || stored_.others.contains(name);
  }

  std::string find_prefix() const {
    std::vector<std::string> found;
    for (std::string_view prefix : prefixes)
      if (is_stored(std::string(prefix) + "embed_tokens.weight")) found.emplace_back(prefix);
    if (found.size() > 1)
      throw Error("KV1309",
                  fmt::format("{} holds two text models, under \"{}\" and \"{}\"", stored_.origin,
                              found[0], found[1]),
                  "keep one of them");
    if (found.size() == 1) return found[0];
    for (std::string_view prefix :
         prefixes)  // no embeddings: let another name decide, so that they are what is missing
      if (has_names_under(std::string(prefix) + "layers.")) return std::string(prefix);
    throw Error(
        "KV1309",
        fmt::format("{} holds no tensor of a Gemma text model ({})", stored_.origin,
                    counted(stored_.table.tensors.size() + stored_.others.size(), "tensor")),
        "names must be embed_tokens.weight, layers.0.… after one of the known prefixes "
        "(reference/README.md)");
  }

  bool has_names_under(const std::string& start) const {
    const auto table = stored_.table.tensors.lower_bound(start);
    const auto other = stored_.others.lower_bound(start);
    return (table != stored_.table.tensors.end() && table->first.starts_with(start)) ||
           (other != stored_.others.end() && other->first.starts_with(start));
  }

  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape) {
    if (const auto other = stored_.others.find(name); other != stored_.others.end())
      throw Error(
          "KV1312",
          fmt::format("{}: {} is stored as {}", stored_.origin, name, other->second.dtype),
          "convert the weights to F32, F16 or BF16; quantised checkpoints are not supported");
    const auto found = stored_.table.tensors.find(name);
    if (found == stored_.table.tensors.end()) {
      miss(name);
      return {};
    }
    if (found->second.shape != shape)
      throw Error("KV1311",
                  fmt::format("{}: {} has shape {}, the config makes it {}", stored_.origin, name,
                              shape_text(found->second.shape), shape_text(shape)),
                  "config.json and weights belong to different models, or a size in config.json "
                  "was changed");
    bound_.push_back(name);
    return found->second;
  }

  // A config may claim billions of layers: stop before memory is spent on what the file does not
  // hold.
  void miss(const std::string& name) {
    missing_.push_back(name);
    if (missing_.size() >= 5) throw_if_missing();
  }

  void throw_if_missing() const {
    if (missing_.empty()) return;
    const bool many = missing_.size() >= 5;
    throw Error("KV1310",
                fmt::format("{} has no {}{}", stored_.origin, joined(missing_),
                            many ? " and perhaps more" : ""),
                remedy_for_missing(missing_.front()));
  }

  std::string remedy_for_missing(const std::string& name) const {
    if (name.ends_with("lm_head.weight"))
      return "set tie_word_embeddings to true if the model has no output matrix of its own, or add "
             "the tensor";
    if (name.find("self_attn.k_") != std::string::npos ||
        name.find("self_attn.v_") != std::string::npos)
      return "config.json says that this layer computes keys and values of its own: check "
             "num_kv_shared_layers "
             "(a missing key means the family's default), kv_sharing_map and attention_k_eq_v";
    return "config.json and weights belong to different models, or a shard is missing";
  }

  void bind_altup_projections() {
    if (config_.family != Family::gemma3n) return;
    const std::int64_t H = config_.hidden_size;
    for (int s = 0; s + 1 < config_.altup_num_inputs; ++s) {
      weights.altup_projections.push_back(take(report.prefix + altup_projection_name(s), {H, H}));
      weights.altup_unembed_projections.push_back(
          take(report.prefix + altup_unembed_projection_name(s), {H, H}));
    }
  }

  void bind_layer(const LayerPlan& layer) {
    LayerWeights& bound = weights.layers.emplace_back();
    const std::string start = report.prefix + layer_prefix(layer.layer);
    for (const LayerSlot& slot : layer_slots(config_, layer))
      bound.*slot.view = take(start + slot.name, slot.shape);
  }

  // lm_head stands beside the text model ("lm_head.weight" next to "model.…") or inside it.
  std::optional<std::string> head_name() const {
    std::optional<std::string> found;
    for (std::string_view prefix : prefixes) {
      std::string name = std::string(prefix) + "lm_head.weight";
      if (!is_stored(name)) continue;
      if (found)
        throw Error("KV1313", fmt::format("{} holds {} and {}", stored_.origin, *found, name),
                    "keep one of them");
      found = std::move(name);
    }
    return found;
  }

  void bind_head() {
    const std::optional<std::string> name = head_name();
    if (!config_.tie_word_embeddings) {
      weights.lm_head =
          take(name.value_or("lm_head.weight"), {config_.vocab_size, config_.hidden_size});
      return;
    }
    weights.lm_head = weights.embed_tokens;
    if (!name || !weights.embed_tokens) return;
    const TensorView stored_head = take(*name, weights.embed_tokens.shape);
    const auto bytes = static_cast<std::size_t>(stored_head.count()) *
                       static_cast<std::size_t>(byte_size(stored_head.dtype));
    // Programs disagree which of the two wins (transformers changed its mind between releases,
    // #42612).
    if (stored_head.dtype != weights.embed_tokens.dtype ||
        std::memcmp(stored_head.data, weights.embed_tokens.data, bytes) != 0)
      throw Error(
          "KV1314",
          fmt::format("{}: tie_word_embeddings is true, but {} differs from {}embed_tokens.weight",
                      stored_.origin, *name, report.prefix),
          "set tie_word_embeddings to false to use it, or remove it from the file");
    report.warnings.push_back(*name + " repeats the tied embed_tokens.weight");
  }

  bool is_dead(std::string_view name) const {
    if (!name.starts_with(report.prefix)) return false;
    name.remove_prefix(report.prefix.size());
    for (const LayerPlan& layer : plan_) {
      const std::string start = layer_prefix(layer.layer);
      if (name.starts_with(start))
        return is_dead_name(std::string(name.substr(start.size())), layer);
    }
    return false;
  }

  void sort_leftovers() {
    std::sort(bound_.begin(), bound_.end());
    for (const auto& [name, tensor] : stored_.table.tensors) sort_leftover(name);
    for (const auto& [name, tensor] : stored_.others) sort_leftover(name);
    if (unexpected_.empty()) return;
    const std::size_t shown = std::min<std::size_t>(unexpected_.size(), 4);
    const std::vector<std::string> first(unexpected_.begin(),
                                         unexpected_.begin() + static_cast<std::ptrdiff_t>(shown));
    throw Error("KV1313",
                fmt::format("{} holds {} that a model of this config does not have: {}{}",
                            stored_.origin, counted(unexpected_.size(), "tensor"), joined(first),
                            shown < unexpected_.size() ? ", …" : ""),
                "a field of config.json is missing or wrong (a bias, a norm, more layers?), or the "
                "model is of another family");
  }

  void sort_leftover(const std::string& name) {
    if (std::binary_search(bound_.begin(), bound_.end(), name)) return;
    const std::string_view bare = without_prefix(name);
    if (is_dead(name)) {
      report.dead.push_back(name);
    } else if (begins_with_part(bare, towers)) {
      report.skipped.push_back(name);
    } else if (name.starts_with(report.prefix) || begins_with_part(bare, text_parts)) {
      unexpected_.push_back(quoted_name(name));
    } else {
      report.skipped.push_back(name);
      report.warnings.push_back(quoted_name(name) +
                                " belongs to no known part of the model and is ignored");
    }
  }

  const ModelConfig& config_;
  const std::vector<LayerPlan>& plan_;
  const StoredTensors& stored_;
  std::vector<std::string> bound_, missing_, unexpected_;
};

}  // namespace

struct CheckpointBuilder {
  // The config is judged first and the weights are fetched after it: a wrong config explains wrong
  // weights.
  template <typename Fetch>
  static std::shared_ptr<const Checkpoint> build(const nlohmann::json& config, Fetch fetch) {
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->config_json_ = std::make_shared<const nlohmann::json>(config);
    checkpoint->config_ = parse_model_config(config);
    checkpoint->plan_ = plan_layers(checkpoint->config_);
    StoredTensors stored = fetch();
    Binder binder(checkpoint->config_, checkpoint->plan_, stored);
    binder.bind();
    checkpoint->weights_ = std::move(binder.weights);
    checkpoint->report_ = std::move(binder.report);
    checkpoint->tensors_ = std::move(stored.table);
    return checkpoint;
  }
};

std::shared_ptr<const Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  const nlohmann::json config =
      parse_config_text(read_config_text(folder), (folder / "config.json").string());
  return open(config, folder);
}

std::shared_ptr<const Checkpoint> Checkpoint::open(const nlohmann::json& config,
                                                   const std::filesystem::path& weights) {
  return CheckpointBuilder::build(config, [&] { return read_stored_tensors(weights); });
}

std::shared_ptr<const Checkpoint> Checkpoint::from_tensors(const nlohmann::json& config,
                                                           TensorTable tensors,
                                                           const std::string& origin) {
  return CheckpointBuilder::build(config, [&] {
    return StoredTensors{std::move(tensors), {}, {}, origin};
  });
}

void write_checkpoint(const std::filesystem::path& folder, const nlohmann::json& config,
                      const TensorTable& tensors) {
  NewFolder out(folder);
  write_safetensors(out.weights_file(), tensors, {{"format", "pt"}});
  out.write_config(config.dump(2) + "\n");
  out.commit();
}

}  // namespace kvconform
