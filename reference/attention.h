// Attention of one layer for one row: project queries, look up the keys and values the plan names,
// softmax.
//
// Scores are q · k with scale 1 and no soft cap (queries and keys are normed). Query head j reads
// key/value head j / (nH / nK), rounded down. The sum over keys is cut at absolute positions 0, 64,
// 128, … (never at the window's edge): a piece gives (max, sum, weighted values), pieces are merged
// left to right. So a row's result does not depend on how its tokens were cut into calls, nor on
// what else the cache holds.
//
// Keys and values of an owner reach its consumers through SharedKeysValues, a required argument of
// every layer. There is nothing to fall back to: asking for keys that were not published in this
// forward throws.
#pragma once

#include <limits>
#include <optional>

#include "reference/checkpoint.h"
#include "reference/error.h"
#include "reference/kv_cache.h"
#include "reference/norm.h"
#include "reference/rope.h"

namespace kvconform {

inline constexpr int kAttentionPiece = 64;

/// Keys and values published by owners during one forward of one row, for the layers above them.
template <class S>
class SharedKeysValues {
 public:
  explicit SharedKeysValues(int layers) : published_(layers) {}

  void publish(int owner, const KeyValues<S>& keys_values) { published_[owner] = keys_values; }

  const KeyValues<S>& of(int owner) const {
    if (!published_[owner])
      throw HarnessError(
          "KV1490",
          "layer " + std::to_string(owner) +
              " published no keys and values in this forward, but a layer reads them",
          "report this: the sharing plan and the model disagree");
    return *published_[owner];
  }

 private:
  std::vector<std::optional<KeyValues<S>>> published_;
};

/// Where a forward without a cache keeps the keys and values it has just computed: until it ends.
template <class S>
class FreshKeysValues {
 public:
  explicit FreshKeysValues(int layers) : keys_(layers), values_(layers) {}

  KeyValues<S> keep(const LayerPlan& layer, const CallShape& call, Matrix<S> keys,
                    Matrix<S> values) {
    Matrix<S>& k = keys_[layer.layer] = std::move(keys);
    Matrix<S>& v = values_[layer.layer] = std::move(values);
    return {call.past, k.rows, k.cols, k.values.data(), v.values.data()};
  }

 private:
  std::vector<Matrix<S>> keys_, values_;
};

/// Where a forward with a cache keeps them.
template <class N, class Decisions>
class CachedRow {
 public:
  using S = typename N::Scalar;
  CachedRow(KvCache<N, Decisions>& cache, int row) : cache_(cache), row_(row) {}

  KeyValues<S> keep(const LayerPlan& layer, const CallShape&, const Matrix<S>& keys,
                    const Matrix<S>& values) {
    return cache_.append(row_, layer, keys, values);
  }

 private:
  KvCache<N, Decisions>& cache_;
  int row_;
};

/// What the pieces of keys up to some position contribute to one query: max of the scores, sum of
/// exp(score − max), and the values weighted by that.
template <class S>
struct SoftmaxPiece {
  S max{};
  S sum{};
  std::vector<S> weighted;
};

/// Scores and weighted values of the keys [first, last] of one piece, in ascending order.
template <class N>
SoftmaxPiece<typename N::Scalar> softmax_piece(const typename N::Scalar* query,
                                               const KeyValues<typename N::Scalar>& kv, int offset,
                                               int head_dim, int first, int last) {
  using S = typename N::Scalar;
  S scores[kAttentionPiece];
  SoftmaxPiece<S> piece;
  for (int p = first; p <= last; ++p) {
    scores[p - first] = N::store(dot(query, kv.key(p) + offset, head_dim));
    if (p == first || scores[p - first] > piece.max) piece.max = scores[p - first];
  }
  piece.sum = S(0);
  piece.weighted.assign(head_dim, S(0));
  for (int p = first; p <= last; ++p) {
    const S weight = exact_exp(scores[p - first] - piece.max);
    piece.sum = piece.sum + weight;
    const S stored = N::store(weight);
    const S* value = kv.value(p) + offset;
    for (int d = 0; d < head_dim; ++d) piece.weighted[d] = piece.weighted[d] + stored * value[d];
  }
  return piece;
}

/// Merges the next piece into what came before it.
template <class S>
void merge_piece(SoftmaxPiece<S>& so_far, const SoftmaxPiece<S>& next) {
  const S max = next.max > so_far.max ? next.max : so_far.max;
  const S keep = exact_exp(so_far.max - max), add = exact_exp(next.max - max);
  so_far.max = max;
  so_far.sum = so_far.sum * keep + next.sum * add;
  for (std::size_t d = 0; d < so_far.weighted.size(); ++d)
    so_far.weighted[d] = so_far.weighted[d] * keep + next.weighted[d] * add;
}

/// One query head against the keys in `range`; writes D numbers. Zeros where nothing is visible,
/// which no healthy causal mask produces: a token sees itself.
template <class N>
void attend(const typename N::Scalar* query, const KeyValues<typename N::Scalar>& kv, int offset,
            int head_dim, KeyRange range, typename N::Scalar* out) {
  using S = typename N::Scalar;
  range.first = std::max(range.first, kv.first);
  range.last = std::min(range.last, kv.first + kv.count - 1);
  std::fill(out, out + head_dim, S(0));
  if (range.first > range.last) return;
  SoftmaxPiece<S> total;
  for (int first = range.first; first <= range.last;) {
    const int piece_end = (first / kAttentionPiece + 1) * kAttentionPiece - 1;
    const int last = std::min(range.last, piece_end);
    SoftmaxPiece<S> piece = softmax_piece<N>(query, kv, offset, head_dim, first, last);
    if (first == range.first)
      total = std::move(piece);
    else
      merge_piece(total, piece);
    first = last + 1;
  }
  for (int d = 0; d < head_dim; ++d) out[d] = N::store(total.weighted[d] / total.sum);
}

template <class N>
void Healthy::attend(const LayerPlan& layer, const CallShape&, const typename N::Scalar* query,
                     const KeyValues<typename N::Scalar>& kv, int offset, KeyRange range,
                     typename N::Scalar* out) const {
  kvconform::attend<N>(query, kv, offset, layer.head_dim, range, out);
}

/// Everything an attention layer is made of but its activations.
template <class N, class Decisions>
struct AttentionContext {
  const LayerPlan& layer;
  const LayerWeights& weights;
  const std::vector<typename N::Scalar>& frequencies;  ///< [D/2], of this layer's rotary embedding
  double eps;
  bool bidirectional;
  int threads;
  const Decisions& decisions;
};

/// q = RoPE(rms(q_proj·x, q_norm)), [T, nH·D].
template <class N, class Decisions>
Matrix<typename N::Scalar> queries(const AttentionContext<N, Decisions>& at, const CallShape& call,
                                   const Matrix<typename N::Scalar>& x) {
  auto q = linear<N>(x, at.weights.q_proj, at.weights.q_bias, at.threads);
  rms_norm_heads<N>(q, at.layer.head_dim, at.weights.q_norm, at.eps);
  for (int t = 0; t < q.rows; ++t)
    at.decisions.template rotate<N>(at.layer, call, q.row(t), at.layer.query_heads, at.frequencies,
                                    at.decisions.query_position(at.layer, call, t));
  at.decisions.scale_queries(at.layer, call, q);
  return q;
}

template <class S>
struct NewKeysValues {
  Matrix<S> keys, values;  ///< [T, nK·D]
};

/// k = RoPE(rms(k_proj·x, k_norm)); v = rms(v_proj·x) without weight and without RoPE, or, with k =
/// v, rms(k_proj·x) taken before k_norm and RoPE.
template <class N, class Decisions>
NewKeysValues<typename N::Scalar> new_keys_values(const AttentionContext<N, Decisions>& at,
                                                  const CallShape& call,
                                                  const Matrix<typename N::Scalar>& x) {
  NewKeysValues<typename N::Scalar> fresh;
  fresh.keys = linear<N>(x, at.weights.k_proj, at.weights.k_bias, at.threads);
  fresh.values = at.layer.values_from_keys
                     ? fresh.keys
                     : linear<N>(x, at.weights.v_proj, at.weights.v_bias, at.threads);
  rms_norm_heads<N>(fresh.keys, at.layer.head_dim, at.weights.k_norm, at.eps);
  rms_norm_heads<N>(fresh.values, at.layer.head_dim, {}, at.eps);
  for (int t = 0; t < fresh.keys.rows; ++t)
    at.decisions.template rotate<N>(at.layer, call, fresh.keys.row(t), at.layer.key_value_heads,
                                    at.frequencies, at.decisions.key_position(at.layer, call, t));
  at.decisions.prepare_to_keep(at.layer, call, fresh.keys, fresh.values);
  return fresh;
}

/// Keys a query may see; with `use_bidirectional_attention: "all"` in both directions
/// (model-spec.md, 6.1).
template <class N, class Decisions>
KeyRange visible_keys(const AttentionContext<N, Decisions>& at, const CallShape& call, int query) {
  if (!at.bidirectional) return at.decisions.visible(at.layer, call, query);
  if (at.layer.window == 0) return {0, call.past + call.tokens - 1};
  const int reach = at.layer.window / 2 + 1;
  return {std::max(0, query - reach), query + reach};
}

/// x [T, H] → o_proj(attention) [T, H]. `shared` is where owners publish and consumers read.
template <class N, class Decisions, class Keeper>
Matrix<typename N::Scalar> attention(const AttentionContext<N, Decisions>& at,
                                     const CallShape& call, const Matrix<typename N::Scalar>& x,
                                     Keeper& keeper, SharedKeysValues<typename N::Scalar>& shared) {
  using S = typename N::Scalar;
  const Matrix<S> q = queries<N>(at, call, x);
  if (at.decisions.computes_own_keys(at.layer, call)) {
    NewKeysValues<S> fresh = new_keys_values<N>(at, call, x);
    shared.publish(at.layer.layer,
                   keeper.keep(at.layer, call, std::move(fresh.keys), std::move(fresh.values)));
  }
  const KeyValues<S>& kv =
      at.decisions.as_read(at.layer, call, shared.of(at.decisions.read_from(at.layer, call)));
  Matrix<S> mixed(x.rows, at.layer.query_heads * at.layer.head_dim);
  for (int t = 0; t < x.rows; ++t) {
    const KeyRange range = visible_keys<N>(at, call, call.past + t);
    for (int h = 0; h < at.layer.query_heads; ++h) {
      const int offset = at.decisions.key_head(at.layer, call, h) * at.layer.head_dim;
      at.decisions.template attend<N>(at.layer, call, q.row(t) + h * at.layer.head_dim, kv, offset,
                                      range, mixed.row(t) + h * at.layer.head_dim);
    }
  }
  return linear<N>(mixed, at.weights.o_proj, at.weights.o_bias, at.threads);
}

}  // namespace kvconform
