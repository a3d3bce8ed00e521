// Drawing configurations. Sizes first, then who shares with whom, then what each family adds.
#include "properties/generators/model_generator.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvconform {
namespace {

using nlohmann::json;
using Types = std::vector<std::string>;

const std::string kSliding = "sliding_attention";
const std::string kFull = "full_attention";

struct Bounds {
  int least_layers, most_layers, most_heads_width, most_hidden, most_vocab;
  std::vector<int> pages;  ///< sizes of cache pages and tiles that prompts of this size can cross
};

Bounds bounds_of(CaseSize size) {
  switch (size) {
    case CaseSize::smoke:
      return {2, 4, 16, 24, 24, {8}};
    case CaseSize::standard:
      return {3, 8, 32, 48, 40, {16}};
    case CaseSize::deep:
      return {3, 12, 64, 64, 96, {16, 32, 64}};
    case CaseSize::emulated:
      return {2, 5, 32, 32, 40, {8, 16}};
  }
  return {3, 8, 32, 48, 40, {16}};
}

Types draw_types(Draw& draw, int layers, bool last_is_full) {
  const int pattern = draw.between(0, 5);
  const int period = draw.between(2, 4);
  Types types;
  for (int i = 0; i < layers; ++i) {
    bool full = false;
    if (pattern == 0) full = true;
    if (pattern == 2) full = i % period == 0;
    if (pattern == 3 || pattern == 4) full = (i + 1) % period == 0;
    if (pattern == 5) full = draw.chance(40);
    types.push_back(full ? kFull : kSliding);
  }
  if (last_is_full) types.back() = kFull;
  return types;
}

bool occurs_below(const Types& types, int end, const std::string& type) {
  return std::find(types.begin(), types.begin() + end, type) != types.begin() + end;
}

/// A Gemma tail: the last `shared` layers read the last layer of their type below. Types are mended
/// so that there is one.
void share_tail(Draw& draw, Types& types, const ModelWishes& wishes, bool last_is_full,
                json& config) {
  const int layers = static_cast<int>(types.size());
  int shared = draw.one_of({0, 1, layers / 2, layers - 1, draw.between(0, layers - 1)});
  if (wishes.consumers) shared = std::max(shared, 1);
  // Where the last layer is full, a sliding owner (layer 0) needs a full one beside it.
  if (wishes.sliding && last_is_full) shared = std::min(shared, layers - 2);
  const int first_shared = layers - shared;
  if (last_is_full && shared > 0 && !occurs_below(types, first_shared, kFull)) {
    types[draw.between(wishes.sliding ? 1 : 0, first_shared - 1)] = kFull;
  }
  for (int i = first_shared; i < layers; ++i) {
    if (!occurs_below(types, first_shared, types[i])) types[i] = types[first_shared - 1];
  }
  if (last_is_full && types.back() != kFull) types.back() = kFull;
  config["num_kv_shared_layers"] = shared;
}

/// Earlier owners of the layer's type.
std::vector<int> owners_before(const Types& types, const std::vector<int>& map, int layer) {
  std::vector<int> owners;
  for (int i = 0; i < layer; ++i) {
    if (map[i] == i && types[i] == types[layer]) owners.push_back(i);
  }
  return owners;
}

/// An explicit map: CLA groups, a YOCO tail, or any owners at all.
void share_by_map(Draw& draw, const Types& types, bool at_least_one, json& config) {
  const int layers = static_cast<int>(types.size());
  const int style = draw.between(0, 2);
  const int group = draw.between(2, 3);
  const int tail = draw.between(1, layers - 1);
  std::vector<int> map(layers);
  bool shared = false;
  for (int i = 0; i < layers; ++i) {
    map[i] = i;
    const std::vector<int> owners = owners_before(types, map, i);
    if (owners.empty()) continue;
    bool reads = false;
    int owner = owners.back();
    if (style == 0) reads = i % group != 0;                     // CLA
    if (style == 1) reads = i >= tail, owner = owners.front();  // YOCO: all from one layer
    if (style == 2) {
      reads = draw.chance(50);
      owner = draw.one_of(owners);
    }
    if (!reads && at_least_one && !shared && i == layers - 1) reads = true;
    if (!reads) continue;
    map[i] = owner;
    shared = true;
  }
  config["kv_sharing_map"] = map;
  config["num_kv_shared_layers"] = 0;
}

json plain_rope(Draw& draw) {
  const double theta = draw.one_of({10000.0, 1000000.0, 100.0});
  json rope = {{"rope_type", "default"}, {"rope_theta", theta}};
  if (draw.chance(25)) {
    rope["rope_type"] = "linear";
    rope["factor"] = draw.one_of({2.0, 8.0});
  }
  return rope;
}

json proportional_rope(Draw& draw) {
  const double theta = draw.one_of({10000.0, 1000000.0});
  const double share = draw.one_of({0.25, 0.5, 0.75, 1.0});
  json rope = {
      {"rope_type", "proportional"}, {"rope_theta", theta}, {"partial_rotary_factor", share}};
  if (draw.chance(15)) rope["factor"] = 4.0;
  return rope;
}

struct Heads {
  int query, key_value;
};

Heads draw_heads(Draw& draw, const Bounds& bounds) {
  std::vector<std::pair<int, int>> choices = {{1, 1}, {2, 1}, {2, 2}, {4, 2},
                                              {4, 1}, {3, 3}, {6, 2}, {6, 3}};
  if (bounds.most_heads_width >= 24) choices.insert(choices.end(), {{6, 2}, {6, 3}});
  const auto [query, key_value] = draw.one_of(choices);
  return {query, key_value};
}

int draw_head_dim(Draw& draw, const Bounds& bounds, int heads) {
  std::vector<int> sizes;
  for (int size : {4, 6, 8, 16}) {
    if (size * heads <= std::max(bounds.most_heads_width, 4 * heads)) sizes.push_back(size);
  }
  return draw.one_of(sizes);
}

/// Small ones, which every prompt crosses; sometimes one around the size of a page.
int draw_window(Draw& draw, const Bounds& bounds) {
  const int small = draw.one_of({1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8});
  const int page = draw.one_of(bounds.pages);
  const int offset = draw.between(-1, 1);
  return draw.chance(10) ? page + offset : small;
}

void add_sizes(Draw& draw, const Bounds& bounds, json& config) {
  const Heads heads = draw_heads(draw, bounds);
  config["num_attention_heads"] = heads.query;
  config["num_key_value_heads"] = heads.key_value;
  config["head_dim"] = draw_head_dim(draw, bounds, heads.query);
  // A multiple of the heads, as Gemma 3n demands; not of 16, so that lanes have leftovers.
  const int unit = heads.query;
  const int least = (16 + unit - 1) / unit;
  config["hidden_size"] = unit * draw.between(least, std::max(least, bounds.most_hidden / unit));
  config["intermediate_size"] = draw.between(6, bounds.most_hidden);
  config["vocab_size"] = draw.between(12, bounds.most_vocab);
  config["sliding_window"] = draw_window(draw, bounds);
  config["rms_norm_eps"] = draw.one_of({1e-6, 1e-5});
  config["tie_word_embeddings"] = draw.chance(70);
  config["attention_bias"] = draw.chance(25);
  const double cap = draw.one_of({30.0, 5.0, 1.5});  // the small ones bite
  config["final_logit_softcapping"] = draw.chance(70) ? json(cap) : json(nullptr);
}

void add_gemma3n(Draw& draw, int layers, json& config) {
  config["model_type"] = "gemma3n_text";
  config["hidden_size_per_layer_input"] = draw.between(kLeastNormed, 8);
  const int vocab = config["vocab_size"];
  // Ids past the smaller table take its row 0.
  config["vocab_size_per_layer_input"] = draw.chance(35) ? draw.between(4, vocab) : vocab;
  const int streams = draw.one_of({1, 2, 3, 4, 4});
  config["altup_num_inputs"] = streams;
  config["altup_active_idx"] = draw.chance(50) ? 0 : draw.between(0, streams - 1);
  config["altup_correct_scale"] = draw.chance(70);
  config["laurel_rank"] = draw.between(kLeastNormed, 6);
  json sparsity = json::array();
  json widths = json::array();
  const bool sparse = draw.chance(50);
  const bool uneven = draw.chance(30);
  for (int i = 0; i < layers; ++i) {
    const double share = draw.one_of({0.0, 0.5, 0.8});
    sparsity.push_back(sparse ? share : 0.0);
    const int extra = draw.between(0, 8);
    widths.push_back(config["intermediate_size"].get<int>() + (uneven ? extra : 0));
  }
  config["activation_sparsity_pattern"] = sparsity;
  config["intermediate_size"] = widths;
  json full = plain_rope(draw);
  json sliding = plain_rope(draw);
  config["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", sliding}};
}

void add_experts(Draw& draw, json& config) {
  const int experts = draw.between(2, 6);
  config["enable_moe_block"] = true;
  config["num_experts"] = experts;
  config["top_k_experts"] = draw.between(1, std::min(3, experts));
  config["moe_intermediate_size"] = draw.between(3, 10);
}

void add_gemma4(Draw& draw, const Bounds& bounds, const ModelWishes& wishes, json& config) {
  config["model_type"] = "gemma4_text";
  config["hidden_size_per_layer_input"] = draw.chance(25) ? 0 : draw.between(kLeastNormed, 8);
  config["vocab_size_per_layer_input"] = config["vocab_size"];
  const int heads = config["num_attention_heads"];
  config["global_head_dim"] =
      draw.chance(50) ? config["head_dim"].get<int>() : draw_head_dim(draw, bounds, heads);
  config["attention_k_eq_v"] = draw.chance(30);
  if (config["attention_k_eq_v"] == true && draw.chance(50)) {
    config["num_global_key_value_heads"] = 1;
  }
  config["use_double_wide_mlp"] = draw.chance(40);
  config["enable_moe_block"] = false;
  if (draw.chance(30) && wishes.experts) add_experts(draw, config);
  const bool both_ways = draw.chance(8);
  if (both_ways && wishes.bidirectional) config["use_bidirectional_attention"] = "all";
  json full = draw.chance(70) ? proportional_rope(draw) : plain_rope(draw);
  json sliding = plain_rope(draw);
  config["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", sliding}};
}

WeightsRecipe draw_weights(Draw& draw, const ModelWishes& wishes) {
  WeightsRecipe recipe;
  recipe.seed =
      draw.bits() >> 1;  // fits a signed 64-bit integer: other JSON readers lose the last bit
  const Dtype dtype = draw.one_of({Dtype::f32, Dtype::f32, Dtype::f32, Dtype::bf16, Dtype::f16});
  if (wishes.reduced_dtype) recipe.dtype = dtype;
  const DeadTensors dead =
      draw.one_of({DeadTensors::absent, DeadTensors::random, DeadTensors::nan});
  if (wishes.dead_tensors) recipe.dead_tensors = dead;
  return recipe;
}

/// What engines cut into pieces must be crossed now and then: sums of 256 (here one of the inner
/// size), keys of 64 positions (with windows at their edges), and rows above 1,024, which a whole
/// block shares (of those only the cut-off of Gemma 3n's sparse layers is one).
void stretch(Draw& draw, const WeightsRecipe& weights, json& config) {
  const bool whole_block = weights.seed % 2 == 0 && config["model_type"] == "gemma3n_text";
  const int inner = draw.between(257, 300) + (whole_block ? 1024 - 256 : 0);
  if (draw.chance(5)) {
    if (whole_block) config["activation_sparsity_pattern"].front() = 0.5;
    json& size = config["intermediate_size"];
    size = size.is_array() ? json(std::vector<int>(size.size(), inner)) : json(inner);
  }
  const int window = draw.one_of({3, 8, 33, 63, 64, 65, 70});
  if (has_long_prompts(weights)) config["sliding_window"] = window;
}

}  // namespace

bool has_long_prompts(const WeightsRecipe& weights) {
  return weights.seed % 20 == 0;
}

ModelSpec draw_model(Draw& draw, CaseSize size, const ModelWishes& wishes) {
  const Bounds bounds = bounds_of(size);
  const bool gemma4 = draw.chance(50) && !wishes.gemma3n_only;
  const int least = wishes.sliding ? 3 : bounds.least_layers;
  const int layers = draw.between(least, bounds.most_layers);
  json config = json::object();
  config["num_hidden_layers"] = layers;
  Types types = draw_types(draw, layers, gemma4);
  if (wishes.sliding) types[0] = kSliding;
  if (draw.chance(65)) {
    share_tail(draw, types, wishes, gemma4, config);
  } else {
    // A map needs an owner below the last layer: give the last layer's type one.
    if (wishes.consumers && !occurs_below(types, layers - 1, types.back())) {
      types[layers - 2 > 0 ? 1 : 0] = types.back();
    }
    share_by_map(draw, types, wishes.consumers, config);
  }
  config["layer_types"] = types;
  add_sizes(draw, bounds, config);
  if (gemma4) {
    add_gemma4(draw, bounds, wishes, config);
  } else {
    add_gemma3n(draw, layers, config);
  }
  const WeightsRecipe weights = draw_weights(draw, wishes);
  if (size == CaseSize::emulated) stretch(draw, weights, config);
  return {config.dump(), weights, {}};
}

}  // namespace kvconform
