// What both families share: embedding, per-layer inputs, attention, feed-forward, head, and the way
// of the activations from device to device.
#include "cuda/forward.h"

#include <algorithm>
#include <cmath>

namespace kvconform::cuda::inline DV_MACHINE {

Forward::Forward(const Engine& engine, const RopeTables& ropes, KeyValueStore& store,
                 std::vector<Workspace>& workspaces, const SessionOptions& options)
    : engine_(engine),
      config_(engine.config()),
      ropes_(ropes),
      store_(store),
      workspaces_(workspaces),
      fast_prefill_(options.fast_prefill),
      start_(options.start) {}

Workspace& Forward::workspace_of(int device) {
  return *std::find_if(workspaces_.begin(), workspaces_.end(),
                       [&](const Workspace& w) { return w.device() == device; });
}

void Forward::upload(const Tokens& tokens) {
  std::vector<TokenPlace> wanted;
  for (int i : tokens.wanted) wanted.push_back(tokens.places[i]);
  for (Workspace& w : workspaces_) {
    dv::use_device(w.device());
    dv::upload(w.ids, tokens.ids.data(), tokens.ids.size() * sizeof(int));
    dv::upload(w.per_layer_ids, tokens.per_layer_ids.data(), tokens.ids.size() * sizeof(int));
    dv::upload(w.places, tokens.places.data(), tokens.ids.size() * sizeof(TokenPlace));
    dv::upload(w.selected, tokens.wanted.data(), tokens.wanted.size() * sizeof(int));
    dv::upload(w.selected_places, wanted.data(), wanted.size() * sizeof(TokenPlace));
  }
}

/// The activations to another device's workspace.
void Forward::move_to(int device) {
  if (w_->device() == device) return;
  Workspace& to = workspace_of(device);
  const std::size_t t = rows_, h = config_.hidden_size, n = config_.altup_num_inputs;
  const std::size_t le = std::size_t(config_.hidden_size_per_layer_input) * config_.num_layers;
  dv::copy(to.streams, streams_, t * n * h * sizeof(float));
  dv::copy(to.per_layer, per_layer_, t * le * sizeof(float));
  dv::use_device(device);
  w_ = &to;
  streams_ = to.streams;
  spare_streams_ = to.spare_streams;
  per_layer_ = to.per_layer;
  normed_ = to.normed;
  places_ = selected_ ? to.selected_places : to.places;
}

void Forward::project_to(const float* x, const float* weight, const float* bias, float* y, int k,
                         int outputs) {
  Projection p{x, weight, bias, y, rows_, k, outputs, k, outputs};
  p.form = engine_.options().projection;
  p.workspace = w_->projection_pieces;
  p.workspace_floats = w_->projection_floats;
  project(p);
}

void Forward::norm(const float* x, const float* weight, float* y, const float* residual) {
  const int h = config_.hidden_size;
  RmsNorm n{x, weight, y, rows_, h, h, h, float(config_.rms_norm_eps)};
  n.residual = residual;
  n.residual_pitch = h;
  rms_norm(n);
}

/// x0 = embed_tokens[id]·√H into stream 0, and what is made of it once.
void Forward::begin(const Tokens& tokens) {
  const int device = engine_.devices().front(), h = config_.hidden_size;
  w_ = &workspace_of(device);
  dv::use_device(device);
  rows_ = tokens.count();
  selected_ = false;
  places_ = w_->places;
  streams_ = w_->streams;
  spare_streams_ = w_->spare_streams;
  per_layer_ = w_->per_layer;
  normed_ = w_->normed;
  embed(engine_.weights().embed_tokens, w_->ids, std::sqrt(float(h)), w_->normed, rows_, h);
  trace("embedding", w_->normed, {h});
  if (config_.hidden_size_per_layer_input > 0) embed_per_layer_inputs();
  expand_streams();
}

/// p = (rms(per_layer_model_projection·x0·H^(−1/2)) + U·√E) / √2
void Forward::embed_per_layer_inputs() {
  const int e = config_.hidden_size_per_layer_input, le = e * config_.num_layers;
  const DeviceWeights& w = engine_.weights();
  project_to(w_->normed, w.per_layer_model_projection, nullptr, per_layer_, config_.hidden_size,
             le);
  RmsNorm n{per_layer_, w.per_layer_projection_norm, per_layer_, rows_ * config_.num_layers, e, e,
            e,          float(config_.rms_norm_eps)};
  n.before = 1.f / std::sqrt(float(config_.hidden_size));
  rms_norm(n);
  join_per_layer_inputs(per_layer_, w.embed_tokens_per_layer, w_->per_layer_ids,
                        std::sqrt(float(e)), per_layer_, rows_, le);
  trace("per_layer_inputs", per_layer_, {config_.num_layers, e});
}

/// Stream 0 is x0; Gemma 3n has others, projected and scaled to its magnitude.
void Forward::expand_streams() {
  const int h = config_.hidden_size, n = config_.altup_num_inputs;
  copy_rows(w_->normed, h, streams_, n * h, rows_, h);
  for (int s = 1; s < n; ++s) {
    Projection p{w_->normed, engine_.weights().altup_projections[s - 1],
                 nullptr,    streams_ + s * h,
                 rows_,      h,
                 h,          h,
                 n * h};
    p.form = engine_.options().projection;
    p.workspace = w_->projection_pieces;
    p.workspace_floats = w_->projection_floats;
    project(p);
    match_magnitude(streams_ + s * h, n * h, streams_, n * h, rows_, h);
  }
  if (config_.family == Family::gemma3n) trace("streams", streams_, {n, h});
}

/// New keys and values into the owner's cache and, once each, into its copies on other devices.
void Forward::append_keys(const LayerPlan& layer) {
  const LayerOnDevice& l = weights(layer);
  const int heads = layer.key_value_heads, d = layer.head_dim, width = heads * d;
  const float eps = float(config_.rms_norm_eps);
  project_to(normed_, l.k_proj, l.k_bias, w_->raw_keys, config_.hidden_size, width);
  if (!layer.values_from_keys)
    project_to(normed_, l.v_proj, l.v_bias, w_->raw_values, config_.hidden_size, width);
  const float* raw_values = layer.values_from_keys ? w_->raw_keys : w_->raw_values;
  finish_heads({w_->raw_keys, l.k_norm, w_->keys, ropes_.of(layer.layer), places_, rows_, heads, d,
                eps, start_});
  finish_heads({raw_values, nullptr, w_->values, nullptr, places_, rows_, heads, d, eps});
  Workspace* const own = w_;
  for (const KeyValueStore::Copy& copy : store_.copies(layer)) {
    Workspace& w = workspace_of(copy.device);
    if (&w != own) {
      dv::copy(w.keys, own->keys, std::size_t(rows_) * width * sizeof(float));
      dv::copy(w.values, own->values, std::size_t(rows_) * width * sizeof(float));
      ++copies_to_devices_;
    }
    dv::use_device(copy.device);
    append_to_cache(w.keys, w.values, copy.cache, w.places, rows_, heads, d);
  }
  dv::use_device(own->device());
}

/// Only the wanted rows go on.
void Forward::select_wanted() {
  const int count = int(tokens_->wanted.size()), h = config_.hidden_size;
  const int n = config_.altup_num_inputs;
  const int le = config_.hidden_size_per_layer_input * config_.num_layers;
  select_rows(streams_, w_->selected, spare_streams_, count, n * h);
  std::swap(streams_, spare_streams_);
  select_rows(normed_, w_->selected, w_->spare_normed, count, h);
  normed_ = w_->spare_normed;
  if (le > 0) select_rows(per_layer_, w_->selected, w_->spare_per_layer, count, le);
  per_layer_ = w_->spare_per_layer;
  places_ = w_->selected_places;
  rows_ = count;
  selected_ = true;
}

void Forward::attention_block(const LayerPlan& layer) {
  if (layer.owns_keys()) append_keys(layer);
  if (layer.layer == engine_.last_owner() && fast_prefill_ && !trace_ &&
      tokens_->wanted.size() < std::size_t(rows_))
    select_wanted();
  if (rows_ == 0) return;
  const LayerOnDevice& l = weights(layer);
  const int heads = layer.query_heads, d = layer.head_dim;
  project_to(normed_, l.q_proj, l.q_bias, w_->raw_queries, config_.hidden_size, heads * d);
  finish_heads({w_->raw_queries, l.q_norm, w_->queries, ropes_.of(layer.layer), places_, rows_,
                heads, d, float(config_.rms_norm_eps), start_});
  int behind = layer.window == 0 ? kEverything : layer.window - 1, ahead = 0;
  if (config_.bidirectional_all) {
    ahead = layer.window == 0 ? kEverything : layer.window / 2 + 1;
    behind = ahead;
  }
  int pieces = 1;
  for (const TokenPlace& place : tokens_->places) {
    const int first = std::max(start_, place.position - behind);
    const int last =
        std::int64_t(place.position) + ahead < place.last ? place.position + ahead : place.last;
    pieces = std::max(pieces, last / kKeyPiece - first / kKeyPiece + 1);
  }
  Attention a{w_->queries,
              store_.view(layer, w_->device()),
              places_,
              w_->attended,
              rows_,
              heads,
              layer.key_value_heads,
              d,
              behind,
              ahead,
              pieces};
  a.form = engine_.options().attention;
  a.workspace = w_->attention_pieces;
  a.workspace_floats = w_->attention_floats;
  a.first_position = start_;
  attend(a);
  project_to(w_->attended, l.o_proj, l.o_bias, w_->attention, heads * d, config_.hidden_size);
  trace(layer, "attention", w_->attention, {config_.hidden_size});
}

/// down·(gelu(gate') ⊙ up)
void Forward::mlp(const LayerPlan& layer, const float* x, float* y) {
  const LayerOnDevice& l = weights(layer);
  const int h = config_.hidden_size, width = layer.intermediate_size;
  project_to(x, l.gate_proj, nullptr, w_->gate, h, width);
  project_to(x, l.up_proj, nullptr, w_->up, h, width);
  GatedGelu g{w_->gate, w_->up, w_->gate, rows_, width, width, width};
  g.sparse = layer.activation_sparsity > 0;
  g.quantile = engine_.quantile(layer.layer);
  gated_gelu(g);
  project_to(w_->gate, l.down_proj, nullptr, y, width, h);
}

/// y = residual + rms(per_layer_projection·(gelu(per_layer_input_gate·x) ⊙ p[layer]))
void Forward::per_layer_output(const LayerPlan& layer, const float* x, float* y,
                               const float* residual) {
  const LayerOnDevice& l = weights(layer);
  const int h = config_.hidden_size, e = config_.hidden_size_per_layer_input;
  project_to(x, l.per_layer_input_gate, nullptr, w_->per_layer_gate, h, e);
  gated_gelu({w_->per_layer_gate, per_layer_ + layer.layer * e, w_->per_layer_gate, rows_, e, e,
              e * config_.num_layers});
  project_to(w_->per_layer_gate, l.per_layer_projection, nullptr, w_->projected, e, h);
  norm(w_->projected, l.post_per_layer_input_norm, y, residual);
}

/// Streams collapsed to one, final norm, head, soft cap.
void Forward::finish() {
  const int h = config_.hidden_size, n = config_.altup_num_inputs;
  const DeviceWeights& w = engine_.weights();
  for (int s = 1; s < n; ++s) {
    Projection p{streams_ + s * h,
                 w.altup_unembed_projections[s - 1],
                 nullptr,
                 spare_streams_ + s * h,
                 rows_,
                 h,
                 h,
                 n * h,
                 n * h};
    p.form = engine_.options().projection;
    p.workspace = w_->projection_pieces;
    p.workspace_floats = w_->projection_floats;
    project(p);
    match_magnitude(spare_streams_ + s * h, n * h, streams_, n * h, rows_, h);
  }
  copy_rows(streams_, n * h, spare_streams_, n * h, rows_, h);
  mean_of_streams(spare_streams_, w_->joined, rows_, n, h);
  norm(w_->joined, w.norm, w_->activated);
  trace("final_norm", w_->activated, {h});
  const int v = config_.vocab_size;
  project_to(w_->activated, w.head, nullptr, w_->logits, h, v);
  if (config_.final_logit_softcapping)
    soft_cap(w_->logits, float(*config_.final_logit_softcapping), std::size_t(rows_) * v);
  trace("logits", w_->logits, {v});
}

void Forward::run(const Tokens& tokens, Trace* trace, int trace_rows) {
  tokens_ = &tokens;
  trace_ = trace;
  trace_rows_ = trace_rows;
  upload(tokens);
  begin(tokens);
  for (const LayerPlan& layer : engine_.plan()) {
    move_to(engine_.devices()[layer.layer]);
    if (config_.family == Family::gemma3n)
      gemma3n_layer(layer);
    else
      gemma4_layer(layer);
    if (rows_ == 0) break;
  }
  if (rows_ > 0) finish();
  dv::synchronize();
}

void Forward::trace(const LayerPlan& layer, const char* part, const float* from,
                    std::vector<std::int64_t> shape) {
  if (trace_) trace("layer." + std::to_string(layer.layer) + "." + part, from, std::move(shape));
}

/// Rows of a launch to their places in an array of the whole call.
void Forward::trace(const std::string& name, const float* from, std::vector<std::int64_t> shape) {
  if (!trace_) return;
  std::size_t width = 1;
  for (std::int64_t axis : shape) width *= axis;
  auto array = std::find_if(trace_->begin(), trace_->end(),
                            [&](const TraceArray& a) { return a.name == name; });
  if (array == trace_->end()) {
    shape.insert(shape.begin(), trace_rows_);
    trace_->push_back({name, shape, std::vector<double>(width * trace_rows_)});
    array = trace_->end() - 1;
  }
  std::vector<float> host(width * rows_);
  dv::synchronize();
  dv::download(host.data(), from, host.size() * sizeof(float));
  for (int i = 0; i < rows_; ++i)
    std::copy_n(host.begin() + i * width, width,
                array->values.begin() + std::size_t(tokens_->output[i]) * width);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
