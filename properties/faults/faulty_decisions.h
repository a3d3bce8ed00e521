// The decisions of a planted fault: the healthy ones with one answer changed. Which one is a value,
// not a type, so that the model is compiled once more and not once for each fault.
//
// To plant another: a name in FaultKind, the changed answer here, a row in the table of faults.cpp.
#pragma once

#include <algorithm>

#include "reference/decisions.h"

namespace kvconform {

enum class FaultKind {
  own_keys_without_cache,
  consumer_reads_first_owner,
  query_after_append,
  mask_after_first_layer,
  chunk_counted_twice,
  position_from_kept_rows,
  consumer_reads_current_chunk,
  window_one_too_wide,
  window_one_too_wide_in_prefill,
  window_one_too_narrow_in_decode,
  window_ignored_in_decode,
  window_on_all_layers,
  window_missing,
  one_lower_bound_per_chunk,
  mask_from_zero_in_later_chunk,
  keys_cut_to_trailing_window,
  causal_bound_rounded_up,
  first_rows_position_for_all,
  per_layer_input_of_chunk_start,
  layer_scalar_missing_in_decode,
  soft_cap_missing_with_cache,
  rewind_keeps_keys,
  reorder_moves_full_layers_only
};

/// Weights with the projections of consumers, which a healthy loader skips: from the file where it
/// has them, else those of the owner (applied to the consumer's own input).
Weights weights_with_dead_tensors(const Checkpoint& checkpoint);

struct Faulty : Healthy {
  static constexpr bool planted = true;
  FaultKind fault;

  explicit Faulty(FaultKind kind) : fault(kind) {}

  bool is(FaultKind kind) const { return fault == kind; }
  static bool later(const CallShape& call) { return call.cached && call.past > call.start; }
  static bool decodes(const CallShape& call) { return call.cached && call.tokens == 1; }

  Weights weights_of(const Checkpoint& checkpoint) const {
    return is(FaultKind::own_keys_without_cache) ? weights_with_dead_tensors(checkpoint)
                                                 : checkpoint.weights();
  }

  std::vector<LayerPlan> plan_of(const Checkpoint& checkpoint) const;

  bool computes_own_keys(const LayerPlan& layer, const CallShape& call) const {
    if (is(FaultKind::own_keys_without_cache) && !call.cached) return true;
    return layer.owns_keys();
  }

  int read_from(const LayerPlan& layer, const CallShape& call) const {
    if (is(FaultKind::own_keys_without_cache) && !call.cached) return layer.layer;
    return layer.owner;
  }

  int query_position(const LayerPlan& layer, const CallShape& call, int t) const {
    if (is(FaultKind::query_after_append) && call.cached && !layer.owns_keys()) {
      return call.past + call.tokens + t;
    }
    return position(layer, call, t);
  }

  int key_position(const LayerPlan& layer, const CallShape& call, int t) const {
    return position(layer, call, t);
  }

  KeyRange visible(const LayerPlan& layer, const CallShape& call, int query) const;

  int per_layer_input_of(const CallShape& call, int t) const {
    return is(FaultKind::per_layer_input_of_chunk_start) && later(call) ? 0 : t;
  }
  bool applies_layer_scalar(const LayerPlan&, const CallShape& call) const {
    return !(is(FaultKind::layer_scalar_missing_in_decode) && decodes(call));
  }
  bool applies_soft_cap(const CallShape& call) const {
    return !(is(FaultKind::soft_cap_missing_with_cache) && call.cached);
  }

  int first_kept(const LayerPlan& layer, int start, int mark, int margin) const {
    if (is(FaultKind::window_ignored_in_decode) || is(FaultKind::window_missing)) return start;
    return Healthy::first_kept(layer, start, mark, margin + 2);
  }

  bool rewind_drops_keys(const LayerPlan& layer) const {
    return !(is(FaultKind::rewind_keeps_keys) && layer.window > 0);
  }
  int reorder_source(const LayerPlan& layer, int row, int source) const {
    return is(FaultKind::reorder_moves_full_layers_only) && layer.window > 0 ? row : source;
  }

 private:
  /// Where a new token is said to stand.
  int position(const LayerPlan& layer, const CallShape& call, int t) const {
    if (is(FaultKind::chunk_counted_twice) && later(call) && call.tokens > 1) {
      return call.past + 2 + t;
    }
    if (is(FaultKind::position_from_kept_rows) && call.cached && layer.window > 0) {
      return call.start + std::min(call.past - call.start, layer.window - 1) + t;
    }
    if (is(FaultKind::first_rows_position_for_all) && call.cached) return call.first_row_past + t;
    return call.past + t;
  }
};

}  // namespace kvconform
