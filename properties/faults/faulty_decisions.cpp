// The longer answers of planted faults.
#include "properties/faults/faulty_decisions.h"

#include <string>

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

std::vector<LayerPlan> with_first_owners(std::vector<LayerPlan> plan) {
  for (LayerPlan& layer : plan) {
    if (layer.owns_keys()) continue;
    for (const LayerPlan& owner : plan) {
      if (!owner.owns_keys() || owner.type != layer.type) continue;
      layer.owner = owner.layer;
      layer.cache_slot = owner.cache_slot;
      break;
    }
  }
  return plan;
}

std::vector<LayerPlan> with_windows(std::vector<LayerPlan> plan, int window) {
  for (LayerPlan& layer : plan) layer.window = window;
  return plan;
}

}  // namespace

Weights weights_with_dead_tensors(const Checkpoint& checkpoint) {
  Weights weights = checkpoint.weights();
  for (const LayerPlan& layer : checkpoint.plan()) {
    if (layer.owns_keys()) continue;
    LayerWeights& own = weights.layers[layer.layer];
    const LayerWeights& owner = weights.layers[layer.owner];
    const auto pick = [&](const char* name, const TensorView& fallback) {
      const TensorView found = stored(checkpoint, layer.layer, name);
      return found ? found : fallback;
    };
    own.k_proj = pick("k_proj.weight", owner.k_proj);
    own.v_proj = pick("v_proj.weight", owner.v_proj);
    own.k_norm = pick("k_norm.weight", owner.k_norm);
    own.k_bias = pick("k_proj.bias", owner.k_bias);
    own.v_bias = pick("v_proj.bias", owner.v_bias);
  }
  return weights;
}

std::vector<LayerPlan> Faulty::plan_of(const Checkpoint& checkpoint) const {
  if (is(FaultKind::consumer_reads_first_owner)) return with_first_owners(checkpoint.plan());
  if (is(FaultKind::window_on_all_layers)) {
    return with_windows(checkpoint.plan(), checkpoint.config().sliding_window);
  }
  return checkpoint.plan();
}

KeyRange Faulty::visible(const LayerPlan& layer, const CallShape& call, int query) const {
  KeyRange range = Healthy::visible(layer, call, query);
  const int end = call.past + call.tokens - 1;  // the last key there is
  const bool slides = layer.window > 0;
  switch (fault) {
    case FaultKind::mask_after_first_layer:
      if (layer.layer > 0 && call.cached && slides) range.first += 1, range.last += 1;
      break;
    case FaultKind::consumer_reads_current_chunk:
      if (!layer.owns_keys()) range.first = std::max(range.first, call.past);
      break;
    case FaultKind::window_one_too_wide:
      if (slides) range.first -= 1;
      break;
    case FaultKind::window_one_too_wide_in_prefill:
      if (slides && call.tokens > 1) range.first -= 1;
      break;
    case FaultKind::window_one_too_narrow_in_decode:
      if (slides && decodes(call)) range.first += 1;
      break;
    case FaultKind::window_ignored_in_decode:
      if (slides && decodes(call)) range.first = 0;
      break;
    case FaultKind::window_missing:
      if (slides) range.first = 0;
      break;
    case FaultKind::one_lower_bound_per_chunk:
      if (slides && call.cached) range.first = call.past - layer.window + 1;
      break;
    case FaultKind::mask_from_zero_in_later_chunk:
      if (later(call) && call.tokens > 1) range.first = 0, range.last = query - call.past;
      break;
    case FaultKind::keys_cut_to_trailing_window:
      if (slides) range.first = std::max(range.first, end - layer.window + 1);
      break;
    case FaultKind::causal_bound_rounded_up:
      range.last = std::min(query | 3, end);
      break;
    default:
      break;
  }
  range.first = std::max(range.first, 0);
  return range;
}

}  // namespace kvconform
