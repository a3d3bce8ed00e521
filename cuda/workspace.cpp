// Sizes, offsets, one allocation.
#include "cuda/workspace.h"

#include <algorithm>

namespace kvconform::cuda::inline DV_MACHINE {

std::size_t Workspace::bytes_of(const std::vector<Part>& parts) {
  constexpr std::size_t alignment = 256;
  if (parts.empty()) return 0;
  const std::size_t end = parts.back().offset + parts.back().bytes;
  return (end + alignment - 1) / alignment * alignment;
}

template <class T>
void Workspace::part(T*& pointer, const char* name, std::size_t count) {
  const std::size_t offset = bytes_of(parts_);
  parts_.push_back({name, offset, std::max<std::size_t>(1, count) * sizeof(T)});
  places_of_pointers_.emplace_back(reinterpret_cast<void**>(&pointer), offset);
}

std::vector<Workspace::Part> Workspace::planned(const ModelConfig& config,
                                                const std::vector<LayerPlan>& plan,
                                                const WorkspaceSizes& sizes) {
  Workspace without_memory;
  without_memory.plan_parts(config, plan, sizes);
  return without_memory.parts_;
}

Workspace::Workspace(const ModelConfig& config, const std::vector<LayerPlan>& plan,
                     const WorkspaceSizes& sizes, int device) {
  plan_parts(config, plan, sizes);
  memory_ = dv::DeviceArray<unsigned char>(device, bytes_of(parts_), "workspace");
  for (auto [pointer, offset] : places_of_pointers_) *pointer = memory_.data() + offset;
  for (const Part& p : parts_) dv::name_part(memory_.data() + p.offset, p.bytes, p.name.c_str());
}

void Workspace::plan_parts(const ModelConfig& config, const std::vector<LayerPlan>& plan,
                           const WorkspaceSizes& sizes) {
  const std::size_t t = sizes.tokens, h = config.hidden_size, n = config.altup_num_inputs;
  const std::size_t e = config.hidden_size_per_layer_input, le = e * config.num_layers;
  const std::size_t x = config.num_experts, k = config.top_k_experts;
  const std::size_t im = config.moe_intermediate_size, v = config.vocab_size;
  std::size_t q = 0, kv = 0, i = 0, split_attention = 0, widest = std::max({h, le, v});
  const int split_tokens = sizes.any_form ? sizes.tokens : std::min(sizes.tokens, 8);
  for (const LayerPlan& layer : plan) {
    q = std::max(q, std::size_t(layer.query_heads) * layer.head_dim);
    kv = std::max(kv, std::size_t(layer.key_value_heads) * layer.head_dim);
    i = std::max(i, std::size_t(layer.intermediate_size));
    split_attention = std::max(
        split_attention,
        attention_workspace(split_tokens, layer.query_heads, layer.head_dim, sizes.key_pieces));
  }
  widest = std::max({widest, q, i});
  attention_floats = sizes.key_pieces > 1 || sizes.any_form ? split_attention : 0;
  projection_floats =
      sizes.any_form ? projection_workspace(sizes.tokens, int(widest), int(widest)) : 0;

  part(ids, "token ids", t);
  part(per_layer_ids, "per-layer ids", t);
  part(selected, "selected rows", t);
  part(places, "places", t);
  part(selected_places, "selected places", t);
  part(streams, "streams", t * n * h);
  part(spare_streams, "spare streams", t * n * h);
  part(per_layer, "per-layer inputs", t * le);
  part(spare_per_layer, "spare per-layer inputs", t * le);
  part(normed, "normed", t * h);
  part(spare_normed, "spare normed", t * h);
  part(attention, "attention", t * h);
  part(joined, "joined", t * h);
  part(activated, "activated", t * h);
  part(projected, "projected", t * h);
  part(laurel, "laurel", t * h);
  part(raw_queries, "raw queries", t * q);
  part(queries, "queries", t * q);
  part(attended, "attended", t * q);
  part(raw_keys, "raw keys", t * kv);
  part(raw_values, "raw values", t * kv);
  part(keys, "new keys", t * kv);
  part(values, "new values", t * kv);
  part(gate, "gate", t * i);
  part(up, "up", t * i);
  part(low_rank, "low rank", t * config.laurel_rank);
  part(modalities, "modalities", t * n);
  part(coefs, "coefficients", t * n * n);
  part(per_layer_gate, "per-layer gate", t * e);
  part(router, "router", t * x);
  part(expert_weights, "expert weights", t * k);
  part(chosen, "chosen experts", t * k);
  part(expert_gate_up, "experts' gate and up", t * k * 2 * im);
  part(expert_gate, "experts' gate", t * k * im);
  part(expert_out, "experts' results", t * k * h);
  part(logits, "logits", t * v);
  part(greedy, "greedy tokens", t);
  part(attention_pieces, "attention pieces", attention_floats);
  part(projection_pieces, "projection pieces", projection_floats);
}

void Workspace::poison() {
  dv::use_device(memory_.device());
  for (const Part& p : parts_) dv::fill(memory_.data() + p.offset, 0xff, p.bytes);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
