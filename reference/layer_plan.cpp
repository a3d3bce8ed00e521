// Roles, owners and cache slots of all layers, see layer_plan.h. Owners come from the Gemma tail or
// from an explicit map; everything after that (checks, roles, slots, doubled widths) is the same
// for both.
#include "reference/layer_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using Owners = std::vector<int>;

void check_list(const char* name, std::size_t length, int num_layers) {
  if (num_layers > 0 && length == static_cast<std::size_t>(num_layers)) return;
  throw Error("KV1101",
              fmt::format("{} has {}, the model has {}", name, counted(length, "entry"),
                          counted(num_layers, "layer")),
              "give one entry a layer, and at least one layer");
}

// A ModelConfig made by parse_model_config always passes; one made by hand may not.
void check_lists(const ModelConfig& config) {
  check_list("layer_types", config.layer_types.size(), config.num_layers);
  check_list("head_dims", config.head_dims.size(), config.num_layers);
  check_list("key_value_heads", config.key_value_heads.size(), config.num_layers);
  check_list("intermediate_sizes", config.intermediate_sizes.size(), config.num_layers);
  check_list("activation_sparsity", config.activation_sparsity.size(), config.num_layers);
  if (config.family == Family::gemma4 && config.layer_types.back() != AttentionType::full) {
    throw Error("KV1102", "the last layer of a Gemma 4 model slides",
                "make the last layer a full one");
  }
}

// Called with 0 <= S < L.
int producer_of(const ModelConfig& config, int consumer) {
  const int first_shared = config.num_layers - config.num_kv_shared_layers;
  for (int i = first_shared - 1; i >= 0; --i) {
    if (config.layer_types[i] == config.layer_types[consumer]) return i;
  }
  throw Error("KV1106",
              fmt::format("layer {} shares the keys of a {} layer below {}, and there is none",
                          consumer, to_string(config.layer_types[consumer]), first_shared),
              "give fewer num_kv_shared_layers, or a layer of that type before them");
}

Owners tail_owners(const ModelConfig& config) {
  const int shared = config.num_kv_shared_layers, layers = config.num_layers;
  if (shared < 0) {
    throw Error("KV1103", fmt::format("num_kv_shared_layers is {}", shared),
                fmt::format("give a number from 0 to {}", layers - 1));
  }
  if (shared > layers) {
    throw Error(
        "KV1104",
        fmt::format("num_kv_shared_layers is {}, the model has {}", shared,
                    counted(layers, "layer")),
        fmt::format("give a number from 0 to {} (a Gemma 3n config without the field means 15)",
                    layers - 1));
  }
  if (shared == layers) {
    throw Error("KV1105",
                fmt::format("{} of {} {} shared: none produces keys and values", shared,
                            counted(layers, "layer"), agreeing(shared, "is", "are")),
                fmt::format("give num_kv_shared_layers of at most {}", layers - 1));
  }
  Owners owners(layers);
  for (int i = 0; i < layers; ++i) owners[i] = i < layers - shared ? i : producer_of(config, i);
  return owners;
}

Owners map_owners(const Owners& map, int layers) {
  if (map.size() != static_cast<std::size_t>(layers)) {
    throw Error("KV1107",
                fmt::format("kv_sharing_map has {}, the model has {}", counted(map.size(), "entry"),
                            counted(layers, "layer")),
                "give one entry a layer");
  }
  for (int i = 0; i < layers; ++i) {
    if (map[i] >= 0 && map[i] < layers) continue;
    throw Error("KV1108", fmt::format("kv_sharing_map[{}] is {}", i, map[i]),
                fmt::format("give a layer number from 0 to {}", layers - 1));
  }
  return map;
}

LayerPlan own_facts(const ModelConfig& config, int layer, int owner) {
  const bool slides = config.layer_types[layer] == AttentionType::sliding;
  LayerPlan plan;
  plan.layer = layer;
  plan.owner = owner;
  plan.last_reader = layer;
  plan.role = owner == layer ? Role::independent : Role::consumer;
  plan.type = config.layer_types[layer];
  plan.window = slides ? config.sliding_window : 0;
  plan.query_heads = config.num_attention_heads;
  plan.key_value_heads = config.key_value_heads[layer];
  plan.head_dim = config.head_dims[layer];
  plan.rope = slides ? config.sliding_rope : config.full_rope;
  plan.values_from_keys = config.attention_k_eq_v && !slides;
  plan.intermediate_size = config.intermediate_sizes[layer];
  if (config.use_double_wide_mlp && owner != layer) plan.intermediate_size *= 2;
  plan.activation_sparsity = config.activation_sparsity[layer];
  return plan;
}

void assign_slots_and_readers(std::vector<LayerPlan>& plan) {
  int slots = 0;
  for (LayerPlan& layer : plan) {
    if (layer.owns_keys()) {
      layer.cache_slot = slots++;
      continue;
    }
    LayerPlan& owner = plan[layer.owner];
    layer.cache_slot = owner.cache_slot;
    owner.role = Role::producer;
    owner.last_reader = layer.layer;
  }
}

template <typename Value>
void require_same(const char* id, const char* what, const LayerPlan& reader, Value of_reader,
                  const LayerPlan& owner, Value of_owner) {
  if (of_reader == of_owner) return;
  throw Error(
      id,
      fmt::format("layer {} reads the keys of layer {}, but has {} {} where the owner has {}",
                  reader.layer, owner.layer, what, of_reader, of_owner),
      "let a layer read from one of the same type and shape only");
}

void check_order(const std::vector<LayerPlan>& plan, const LayerPlan& reader) {
  if (reader.owner > reader.layer) {
    throw Error("KV1110",
                fmt::format("layer {} reads the keys of layer {}, which comes later", reader.layer,
                            reader.owner),
                "let a layer read from itself or from an earlier layer");
  }
  if (plan[reader.owner].owner != reader.owner) {
    throw Error(
        "KV1111",
        fmt::format("layer {} reads the keys of layer {}, which has none of its own (it reads {})",
                    reader.layer, reader.owner, plan[reader.owner].owner),
        fmt::format("point layer {} at the layer that owns the keys", reader.layer));
  }
}

void check_alike(const LayerPlan& reader, const LayerPlan& owner) {
  require_same("KV1112", "type", reader, to_string(reader.type), owner, to_string(owner.type));
  require_same("KV1113", "head size", reader, reader.head_dim, owner, owner.head_dim);
  require_same("KV1114", "key/value heads", reader, reader.key_value_heads, owner,
               owner.key_value_heads);
  require_same("KV1116", "window", reader, reader.window, owner, owner.window);
  if (reader.rope == owner.rope) return;
  throw Error("KV1115",
              fmt::format("layer {} reads the keys of layer {}, which are rotated in another way",
                          reader.layer, owner.layer),
              "let a layer read from one with the same rotary parameters only");
}

}  // namespace

void check_sharing(const std::vector<LayerPlan>& plan) {
  const int layers = static_cast<int>(plan.size());
  for (const LayerPlan& layer : plan) {
    if (layer.owner >= 0 && layer.owner < layers) continue;
    throw Error("KV1108", fmt::format("the owner of layer {} is {}", layer.layer, layer.owner),
                fmt::format("give a layer number from 0 to {}", layers - 1));
  }
  for (const LayerPlan& layer : plan) {
    check_order(plan, layer);
    check_alike(layer, plan[layer.owner]);
  }
}

std::vector<LayerPlan> plan_layers(const ModelConfig& config) {
  check_lists(config);
  const Owners owners = config.kv_sharing_map
                            ? map_owners(*config.kv_sharing_map, config.num_layers)
                            : tail_owners(config);
  std::vector<LayerPlan> plan;
  for (int i = 0; i < config.num_layers; ++i) plan.push_back(own_facts(config, i, owners[i]));
  check_sharing(plan);
  assign_slots_and_readers(plan);
  return plan;
}

int cache_slots(const std::vector<LayerPlan>& plan) {
  return static_cast<int>(std::count_if(plan.begin(), plan.end(),
                                        [](const LayerPlan& layer) { return layer.owns_keys(); }));
}

long long cache_bytes_per_token(const LayerPlan& layer, int bytes_per_number) {
  if (!layer.owns_keys()) return 0;
  return 2LL * layer.key_value_heads * layer.head_dim * bytes_per_number;
}

const char* to_string(Role role) {
  switch (role) {
    case Role::producer:
      return "producer";
    case Role::consumer:
      return "consumer";
    default:
      return "independent";
  }
}

}  // namespace kvconform
