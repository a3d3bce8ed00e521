// The decisions in which engines err. The model and its cache ask for each of them by name; the
// answers below are the right ones and cost nothing (they are inlined). A planted fault is another
// type with one answer changed (properties/faults), so that the model itself holds no switch and no
// fault.
//
// What the right answers follow: the sharing and window rules of model-spec.md, sections 3.2 and 4
// to 6.
#pragma once

#include <algorithm>

#include "reference/checkpoint.h"

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

struct Healthy {
  static constexpr bool planted = false;

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

  // ---- who sees whom ----

  /// Full: k ≤ q. Sliding: q − W < k ≤ q, W keys with itself.
  KeyRange visible(const LayerPlan& layer, const CallShape&, int query) const {
    if (layer.window == 0) return {0, query};
    return {std::max(0, query - layer.window + 1), query};
  }

  // ---- side inputs ----

  /// Token of the call whose per-layer input token t of the call gets.
  int per_layer_input_of(const CallShape&, int t) const { return t; }
  bool applies_layer_scalar(const LayerPlan&, const CallShape&) const { return true; }
  bool adds_per_layer_input(const LayerPlan&, const CallShape&) const { return true; }
  bool applies_soft_cap(const CallShape&) const { return true; }

  // ---- the cache ----

  /// First position a row of a sliding layer must keep once the longest length was `mark`: the
  /// W − 1 before the earliest length a rewind may go back to.
  int first_kept(const LayerPlan& layer, int start, int mark, int margin) const {
    if (layer.window == 0) return start;
    return std::max(start, mark - margin - layer.window + 1);
  }

  /// Keys and values at and past the new length are forgotten by a rewind.
  bool rewind_drops_keys(const LayerPlan&) const { return true; }

  /// A rewind that cannot be served is refused.
  bool refuses_rewind() const { return true; }

  /// Source row for row r of a reorder.
  int reorder_source(const LayerPlan&, int, int source) const { return source; }

  /// Length that a row has after a restore.
  int restored_length(int saved) const { return saved; }
};

}  // namespace kvconform
