// Faults in what is loaded and in who reads whose keys and values.
#include <string>

#include "properties/faults/faulty_decisions.h"
#include "reference/linear.h"

namespace kvconform {
namespace {

/// A tensor of the file by the end of its name, whatever its prefix.
TensorView stored(const Checkpoint& checkpoint, int layer, const std::string& name) {
  const std::string end = "layers." + std::to_string(layer) + ".self_attn." + name;
  for (const auto& [full, view] : checkpoint.tensors().tensors) {
    if (full.size() >= end.size() && full.compare(full.size() - end.size(), end.size(), end) == 0) {
      return view;
    }
  }
  return {};
}

/// Weights with the projections of consumers, which a healthy loader skips: from the file where it
/// has them in that shape, else those of the owner (applied to the consumer's own input).
Weights weights_with_dead_tensors(const Checkpoint& checkpoint) {
  Weights weights = checkpoint.weights();
  for (const LayerPlan& layer : checkpoint.plan()) {
    if (layer.owns_keys()) continue;
    LayerWeights& own = weights.layers[layer.layer];
    const LayerWeights& owner = weights.layers[layer.owner];
    const auto pick = [&](const char* name, const TensorView& fallback) {
      const TensorView found = stored(checkpoint, layer.layer, name);
      return found && found.shape == fallback.shape ? found : fallback;
    };
    own.k_proj = pick("k_proj.weight", owner.k_proj);
    own.v_proj = pick("v_proj.weight", owner.v_proj);
    own.k_norm = pick("k_norm.weight", owner.k_norm);
    own.k_bias = pick("k_proj.bias", owner.k_bias);
    own.v_bias = pick("v_proj.bias", owner.v_bias);
  }
  return weights;
}

std::vector<float> numbers_of(const TensorView& tensor) {
  return widened<Float32>(tensor);
}

bool same_width(const LayerPlan& a, const LayerPlan& b) {
  return a.head_dim == b.head_dim && a.key_value_heads == b.key_value_heads;
}

/// Roles and slots once owners have changed.
void settle(std::vector<LayerPlan>& plan) {
  int slots = 0;
  for (LayerPlan& layer : plan) {
    layer.last_reader = layer.layer;
    if (layer.owner == layer.layer) {
      layer.role = Role::independent;
      layer.cache_slot = slots++;
      continue;
    }
    LayerPlan& owner = plan[layer.owner];
    layer.role = Role::consumer;
    layer.cache_slot = owner.cache_slot;
    owner.role = Role::producer;
    owner.last_reader = layer.layer;
  }
}

void read_first_owner(std::vector<LayerPlan>& plan) {
  for (LayerPlan& layer : plan) {
    if (layer.owns_keys()) continue;
    for (const LayerPlan& owner : plan) {
      if (!owner.owns_keys() || owner.type != layer.type) continue;
      layer.owner = owner.layer;
      layer.cache_slot = owner.cache_slot;
      break;
    }
  }
}

void read_nearest_owner(std::vector<LayerPlan>& plan) {
  for (LayerPlan& layer : plan) {
    if (layer.owns_keys()) continue;
    for (int i = layer.layer - 1; i >= 0; --i) {
      if (!plan[i].owns_keys() || !same_width(plan[i], layer)) continue;
      layer.owner = i;
      layer.cache_slot = plan[i].cache_slot;
      break;
    }
  }
}

/// The last owner below the tail becomes a consumer as well, where an earlier layer can be read.
void share_one_layer_more(std::vector<LayerPlan>& plan, int first_shared) {
  const int taken = first_shared - 1;
  int owner = -1;
  for (int i = 0; i < taken; ++i) {
    if (plan[i].owns_keys() && plan[i].type == plan[taken].type) owner = i;
  }
  if (owner < 0) return;
  for (LayerPlan& layer : plan) {
    if (layer.owner == taken) layer.owner = owner;
  }
  settle(plan);
}

void take_window_of_layer_below(std::vector<LayerPlan>& plan) {
  for (std::size_t i = plan.size() - 1; i > 0; --i) plan[i].window = plan[i - 1].window;
}

void swap_thetas(std::vector<LayerPlan>& plan, const ModelConfig& config) {
  for (LayerPlan& layer : plan) {
    const bool slides = layer.type == AttentionType::sliding;
    layer.rope.theta = slides ? config.full_rope.theta : config.sliding_rope.theta;
  }
}

}  // namespace

TensorView Faulty::own_tensor(std::vector<std::int64_t> shape, std::vector<float> numbers) const {
  if (!tensors_) tensors_ = std::make_shared<std::deque<std::vector<float>>>();
  tensors_->push_back(std::move(numbers));
  return {Dtype::f32, std::move(shape),
          reinterpret_cast<const std::byte*>(tensors_->back().data())};
}

Weights Faulty::weights_of(const Checkpoint& checkpoint) const {
  tensors_.reset();  // those of a model that was loaded before
  dead_tensors_ = !checkpoint.report().dead.empty();
  Weights weights = checkpoint.weights();
  const auto changed = [&](const TensorView& tensor, auto change) {
    std::vector<float> numbers = numbers_of(tensor);
    for (float& x : numbers) x = change(x);
    return own_tensor(tensor.shape, std::move(numbers));
  };
  switch (fault_) {
    case FaultKind::own_keys_without_cache:
    case FaultKind::own_keys_always:
    case FaultKind::consumer_writes_owners_cache:
    case FaultKind::sharing_map_ignored:
      return weights_with_dead_tensors(checkpoint);
    case FaultKind::dead_tensors_folded_in:  // "weighted with zero", which NaN survives
      for (const LayerPlan& layer : checkpoint.plan()) {
        const TensorView dead = stored(checkpoint, layer.layer, "k_proj.weight");
        if (layer.owns_keys() || !dead) continue;
        const float nothing = 0 * element(dead, 0);
        TensorView& norm = weights.layers[layer.layer].q_norm;
        norm = changed(norm, [&](float x) { return x + nothing; });
      }
      break;
    case FaultKind::consumer_uses_owners_query_norm:
      for (const LayerPlan& layer : checkpoint.plan())
        weights.layers[layer.layer].q_norm = checkpoint.weights().layers[layer.owner].q_norm;
      break;
    case FaultKind::biases_ignored:
      for (LayerWeights& layer : weights.layers)
        layer.q_bias = layer.k_bias = layer.v_bias = layer.o_bias = {};
      break;
    case FaultKind::norm_offset_on_final_norm:
      weights.norm = changed(weights.norm, [](float x) { return x + 1; });
      break;
    case FaultKind::embedding_scale_in_head: {
      const float scale = exact_sqrt(float(checkpoint.config().hidden_size));
      weights.lm_head = changed(weights.lm_head, [&](float x) { return x * scale; });
      break;
    }
    case FaultKind::expert_scale_dropped:
      for (LayerWeights& layer : weights.layers) {
        TensorView& scale = layer.router_per_expert_scale;
        if (scale) scale = changed(scale, [](float) { return 1.0F; });
      }
      break;
    default:
      break;
  }
  return weights;
}

std::vector<LayerPlan> Faulty::plan_of(const Checkpoint& checkpoint) const {
  const ModelConfig& config = checkpoint.config();
  std::vector<LayerPlan> plan = checkpoint.plan();
  cap_ = config.final_logit_softcapping.value_or(0);
  for (const LayerPlan& layer : plan) window_ = std::max(window_, layer.window);
  switch (fault_) {
    case FaultKind::consumer_reads_first_owner:
      read_first_owner(plan);
      break;
    case FaultKind::consumer_reads_nearest_owner:
      read_nearest_owner(plan);
      break;
    case FaultKind::first_shared_layer_one_early:
      if (!config.kv_sharing_map && config.num_kv_shared_layers > 0)
        share_one_layer_more(plan, config.num_layers - config.num_kv_shared_layers);
      break;
    case FaultKind::own_keys_always:
    case FaultKind::sharing_map_ignored:
      if (is(FaultKind::sharing_map_ignored) && !config.kv_sharing_map) break;
      for (LayerPlan& layer : plan) layer.owner = layer.layer;
      settle(plan);
      break;
    case FaultKind::window_on_all_layers:
      for (LayerPlan& layer : plan) layer.window = config.sliding_window;
      break;
    case FaultKind::window_of_layer_below:
      take_window_of_layer_below(plan);
      break;
    case FaultKind::rotary_theta_of_other_type:
      swap_thetas(plan, config);
      break;
    case FaultKind::rotary_factor_ignored:
      for (LayerPlan& layer : plan) layer.rope.factor = 1;
      break;
    case FaultKind::partial_rotary_ignored:
      for (LayerPlan& layer : plan) layer.rope.partial_rotary_factor = 1;
      break;
    default:
      break;
  }
  return plan;
}

bool Faulty::computes_own_keys(const LayerPlan& layer, const CallShape& call) const {
  if (is(FaultKind::own_keys_without_cache) && !call.cached) return true;
  if (is(FaultKind::consumer_writes_owners_cache) && call.cached) return true;
  return layer.owns_keys();
}

int Faulty::read_from(const LayerPlan& layer, const CallShape& call) const {
  if (consumes(layer) && computes_own_keys(layer, call)) return layer.layer;
  if (is(FaultKind::consumer_reads_own_slot) && later(call)) return layer.layer;
  return layer.owner;
}

}  // namespace kvconform
