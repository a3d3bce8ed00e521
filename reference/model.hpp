// Definitions of model.h, for those who instantiate it with numerics or decisions of their own.
#pragma once

#include "reference/counted.h"
#include "reference/gemma3n_layer.h"
#include "reference/gemma4_layer.h"
#include "reference/model.h"

namespace kvconform {

template <class N, class D>
Model<N, D>::Model(std::shared_ptr<const Checkpoint> checkpoint, int threads, D decisions)
    : checkpoint_(std::move(checkpoint)),
      threads_(threads),
      decisions_(decisions),
      weights_(decisions_.weights_of(*checkpoint_)),
      plan_(decisions_.plan_of(*checkpoint_)) {
  for (const LayerPlan& layer : plan_)
    frequencies_.push_back(rope_frequencies<N>(layer.rope, layer.head_dim));
}

template <class N, class D>
void Model<N, D>::check_tokens(const std::vector<std::vector<int>>& rows) const {
  for (const auto& tokens : rows)
    for (int id : tokens) {
      if (id < 0 || id >= config().vocab_size)
        throw Error("KV1401",
                    "token " + std::to_string(id) + " is outside the vocabulary of " +
                        std::to_string(config().vocab_size),
                    "use token ids from 0 to vocab_size − 1");
      if (config().hidden_size_per_layer_input > 0) per_layer_row(config(), id);
    }
}

template <class N, class D>
void Model<N, D>::check_extend(const Cache& cache,
                               const std::vector<std::vector<int>>& rows) const {
  if (static_cast<int>(rows.size()) != cache.batch())
    throw Error("KV1404",
                "the call has " + counted(rows.size(), "row") + " for a batch of " +
                    std::to_string(cache.batch()),
                "give one list of tokens a row; a list may be empty");
  for (int r = 0; r < cache.batch(); ++r)
    if (cache.length(r) + static_cast<std::int64_t>(rows[r].size()) > cache.shape().capacity)
      throw Error("KV1405",
                  "row " + std::to_string(r) + " holds " + counted(cache.length(r), "token") +
                      " and gets " + std::to_string(rows[r].size()) +
                      " more, past its capacity of " + std::to_string(cache.shape().capacity),
                  "open the cache with a larger capacity");
  check_tokens(rows);
}

template <class N, class D>
auto Model<N, D>::open(const CacheShape& shape) const -> Cache {
  if (config().bidirectional_all)
    throw Error("KV1406",
                "use_bidirectional_attention is \"all\": later tokens change earlier rows",
                "score whole sequences; no cache makes sense");
  return Cache(plan_, shape, decisions_);
}

/// One matrix under the other.
template <class S>
void append_rows(Matrix<S>& all, const Matrix<S>& more) {
  all.rows += more.rows;
  all.cols = more.cols;
  all.values.insert(all.values.end(), more.values.begin(), more.values.end());
}

template <class N, class D>
auto Model<N, D>::score(const std::vector<std::vector<int>>& rows, Trace* trace) const
    -> Matrix<S> {
  check_tokens(rows);
  Matrix<S> logits(0, config().vocab_size);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].empty()) continue;
    CallShape call;
    call.tokens = static_cast<int>(rows[r].size());
    call.row = static_cast<int>(r);
    call.batch = static_cast<int>(rows.size());
    for (const auto& row : rows)
      call.longest = std::max(call.longest, static_cast<int>(row.size()));
    FreshKeysValues<S> fresh(config().num_layers);
    append_rows(logits, forward(rows[r], call, fresh, trace));
  }
  return logits;
}

template <class N, class D>
auto Model<N, D>::extend(Cache& cache, const std::vector<std::vector<int>>& rows,
                         Trace* trace) const -> Matrix<S> {
  check_extend(cache, rows);
  const int start = cache.shape().start;
  CallShape call;
  call.cached = true;
  call.start = start;
  call.batch = cache.batch();
  call.capacity = cache.shape().capacity;
  call.first_row_past = start + cache.length(0);
  for (int r = 0; r < cache.batch(); ++r) {
    call.longest = std::max(call.longest, static_cast<int>(rows[r].size()));
    call.longest_past = std::max(call.longest_past, start + cache.length(r));
  }
  Matrix<S> logits(0, config().vocab_size);
  for (int r = 0; r < cache.batch(); ++r) {
    if (rows[r].empty()) continue;
    call.row = r;
    call.past = start + cache.length(r);
    call.tokens = static_cast<int>(rows[r].size());
    CachedRow<N, D> keeper(cache, r);
    append_rows(logits, forward(rows[r], call, keeper, trace));
    cache.advance(r, call.tokens);
  }
  return logits;
}

/// x0 = embed_tokens[id] · √H, [T, H].
template <class N, class D>
auto Model<N, D>::embed(std::span<const int> tokens, const CallShape& call) const -> Matrix<S> {
  Matrix<S> x0(static_cast<int>(tokens.size()), config().hidden_size);
  const S scale =
      decisions_.scales_embedding(call) ? N::store(exact_sqrt(S(config().hidden_size))) : S(1);
  std::vector<S> buffer;
  for (int t = 0; t < x0.rows; ++t) {
    const S* row = widened_row<N>(weights_.embed_tokens, tokens[t], buffer);
    for (int i = 0; i < x0.cols; ++i) x0.at(t, i) = N::store(row[i] * scale);
  }
  return x0;
}

/// logits = head · rms(h, norm), soft-capped: z ← c·tanh(z/c).
template <class N, class D>
auto Model<N, D>::head(const Matrix<S>& h, const CallShape& call, Trace* trace) const -> Matrix<S> {
  Tracer tracer(trace);
  const Matrix<S> normed =
      decisions_.template final_norm<N>(h, weights_.norm, config().rms_norm_eps);
  tracer.record("final_norm", normed);
  Matrix<S> z = linear<N>(normed, weights_.lm_head, {}, threads_);
  if (config().final_logit_softcapping) {
    const S cap(*config().final_logit_softcapping);
    for (S& value : z.values) value = decisions_.template soft_capped<N>(value, cap, call);
  }
  tracer.record("logits", z);
  return z;
}

/// One row: embedding, layers, head. `keeper` decides where new keys and values live.
template <class N, class D>
template <class Keeper>
auto Model<N, D>::forward(std::span<const int> tokens, const CallShape& call, Keeper& keeper,
                          Trace* trace) const -> Matrix<S> {
  Tracer tracer(trace);
  const Matrix<S> x0 = embed(tokens, call);
  tracer.record("embedding", x0);
  const Matrix<S> per_layer = per_layer_inputs<N>(x0, tokens, config(), weights_, threads_);
  if (per_layer.cols > 0)
    tracer.record("per_layer_inputs", per_layer,
                  {x0.rows, config().num_layers, config().hidden_size_per_layer_input});
  SharedKeysValues<S> shared(config().num_layers);
  const auto inputs = [&](int layer) {
    return LayerInputs<N, D>{
        config(),
        {plan_[layer], weights_.layers[layer], frequencies_[layer], config().rms_norm_eps,
         config().bidirectional_all, threads_, decisions_},
        per_layer};
  };
  if (config().family == Family::gemma4) {
    Matrix<S> h = x0;
    for (int i = 0; i < config().num_layers; ++i)
      h = gemma4_layer<N>(inputs(i), call, std::move(h), keeper, shared, tracer);
    return head(h, call, trace);
  }
  Streams<S> streams = expand_streams<N>(x0, weights_.altup_projections, threads_);
  tracer.record_streams("streams", streams);
  for (int i = 0; i < config().num_layers; ++i)
    streams = gemma3n_layer<N>(inputs(i), call, streams, keeper, shared, tracer);
  return head(collapse_streams<N>(streams, weights_.altup_unembed_projections, threads_), call,
              trace);
}

}  // namespace kvconform
