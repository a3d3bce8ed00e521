// The decisions in which engines err. The model and its cache ask for each of them by name; the
// answers below are the right ones and cost nothing (they are inlined). A planted fault is another
// type with one answer changed (properties/faults), so that the model itself holds no switch and no
// fault.
//
// What the right answers follow: model-spec.md, sections 3 to 6.
#pragma once

#include <algorithm>

#include "reference/checkpoint.h"
#include "reference/key_values.h"
#include "reference/norm.h"
#include "reference/rope.h"

namespace kvconform {

/// One row's part in one call.
struct CallShape {
  bool cached = false;  ///< false: no cache anywhere (score)
  int start = 0;        ///< position of the row's first token
  int past = 0;    ///< position of this call's first token: start + tokens cached before the call
  int tokens = 0;  ///< T, new tokens of this row
  int row = 0, batch = 1;
  int longest = 0;       ///< the most new tokens of any row of the call
  int longest_past = 0;  ///< the largest `past` of any row of the call
  int first_row_past = 0;
  int capacity = 0;
};

/// Key positions that a query may see, both ends included; empty where first > last.
struct KeyRange {
  int first = 0, last = -1;
};

/// Whose per-layer input is meant: a token of the call, a layer.
struct PerLayerSource {
  int token = 0, layer = 0;
};

struct Healthy {
  // ---- what is loaded ----

  Weights weights_of(const Checkpoint& checkpoint) const { return checkpoint.weights(); }
  std::vector<LayerPlan> plan_of(const Checkpoint& checkpoint) const { return checkpoint.plan(); }

  // ---- whose keys and values, and where they stand ----

  /// A consumer reads its owner's keys and values, cache or no cache.
  bool computes_own_keys(const LayerPlan& layer, const CallShape&) const {
    return layer.owns_keys();
  }

  /// The layer whose keys and values a consumer reads.
  int read_from(const LayerPlan& layer, const CallShape&) const { return layer.owner; }

  /// Position that a query is rotated by: counted before this forward changes any cache.
  int query_position(const LayerPlan&, const CallShape& call, int t) const { return call.past + t; }

  /// Position that a key is rotated by.
  int key_position(const LayerPlan&, const CallShape& call, int t) const { return call.past + t; }

  /// Rotates every head of one token's queries or keys, [heads·D], to `position`.
  template <class N>
  void rotate(const LayerPlan& layer, const CallShape&, typename N::Scalar* x, int heads,
              const std::vector<typename N::Scalar>& frequencies, int position) const {
    kvconform::rotate<N>(x, heads, layer.head_dim, frequencies, position);
  }

  /// Queries meet keys as they are: scale 1.
  template <class Queries>
  void scale_queries(const LayerPlan&, const CallShape&, Queries&) const {}

  /// Keys and values are kept as they were computed …
  template <class KeysOrValues>
  void prepare_to_keep(const LayerPlan&, const CallShape&, KeysOrValues&, KeysOrValues&) const {}

  /// … and read as they are kept, by their owner and by its consumers.
  template <class View>
  const View& as_read(const LayerPlan&, const CallShape&, const View& kept) const {
    return kept;
  }

  // ---- who sees whom ----

  /// Full: k ≤ q. Sliding: q − W < k ≤ q, W keys with itself.
  KeyRange visible(const LayerPlan& layer, const CallShape&, int query) const {
    if (layer.window == 0) return {0, query};
    return {std::max(0, query - layer.window + 1), query};
  }

  /// Key/value head that a query head reads.
  int key_head(const LayerPlan& layer, const CallShape&, int query_head) const {
    return query_head / (layer.query_heads / layer.key_value_heads);
  }

  /// One query head against the keys in `range`; writes D numbers (attention.h).
  template <class N>
  void attend(const LayerPlan& layer, const CallShape&, const typename N::Scalar* query,
              const KeyValues<typename N::Scalar>& kv, int offset, KeyRange range,
              typename N::Scalar* out) const;

  // ---- side inputs ----

  bool scales_embedding(const CallShape&) const { return true; }

  /// Token t of the call gets its own per-layer input, that of the layer.
  PerLayerSource per_layer_input_of(const LayerPlan& layer, const CallShape&, int t) const {
    return {t, layer.layer};
  }
  bool adds_per_layer_input(const LayerPlan&, const CallShape&) const { return true; }
  bool applies_layer_scalar(const LayerPlan&, const CallShape&) const { return true; }
  double activation_sparsity(const LayerPlan& layer, const CallShape&) const {
    return layer.activation_sparsity;
  }

  /// AltUp: the stream that the coefficients of a prediction are made from.
  int router_stream(int active) const { return active; }
  bool corrects_output_scale(const ModelConfig& config, const CallShape&) const {
    return config.altup_correct_scale;
  }
  /// Stream 0 never gets the per-layer input.
  int first_stream_with_per_layer_input() const { return 1; }

  /// Experts: the router reads the raw stream, not the normed one.
  bool router_reads_raw_stream() const { return true; }
  int experts_taken(const ModelConfig& config, const CallShape&) const {
    return config.top_k_experts;
  }

  // ---- the head ----

  template <class N>
  Matrix<typename N::Scalar> final_norm(const Matrix<typename N::Scalar>& h,
                                        const TensorView& weight, double eps) const {
    return rms_norm<N>(h, weight, eps);
  }

  /// z ← c·tanh(z/c)
  template <class N>
  typename N::Scalar soft_capped(typename N::Scalar z, typename N::Scalar cap,
                                 const CallShape&) const {
    return N::store(N::store(exact_tanh(N::store(z / cap))) * cap);
  }

  // ---- the cache ----

  /// How often a call's keys and values are added to the cache.
  int times_appended(const LayerPlan&) const { return 1; }

  /// Where they are added, counted in positions kept: behind what the row holds, whatever the first
  /// row holds.
  int write_index(int kept, int /*kept_by_first_row*/) const { return kept; }

  /// First position a row of a sliding layer must keep once the longest length was `mark`: the
  /// W − 1 before the earliest length a rewind may go back to. A call added `tokens`; `first` is
  /// the first position kept so far.
  int first_kept(const LayerPlan& layer, int start, int mark, int margin, int /*tokens*/,
                 int /*first*/) const {
    if (layer.window == 0) return start;
    return std::max(start, mark - margin - layer.window + 1);
  }

  /// Length that a row has after a rewind.
  int rewound_length(const std::vector<LayerPlan>&, const std::vector<int>& lengths, int row,
                     int /*current*/) const {
    return lengths[row];
  }

  /// Keys and values at and past the new length are forgotten by a rewind.
  bool rewind_drops_keys(const LayerPlan&) const { return true; }

  /// A rewind that cannot be served is refused.
  bool refuses_rewind() const { return true; }

  /// Source row for row r of a reorder.
  int reorder_source(const LayerPlan&, int row, const std::vector<int>& sources) const {
    return sources[row];
  }

  /// Length that a row has after a restore.
  int restored_length(int saved) const { return saved; }

  /// Restored keys and values lie in the order of their positions, as they were saved.
  template <class Numbers>
  void arrange_restored(const LayerPlan&, Numbers&, Numbers&) const {}
};

}  // namespace kvconform
