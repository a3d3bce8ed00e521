// Faults in who sees whom, and in what a sliding layer forgets.
#include "properties/faults/faulty_decisions.h"

namespace kvconform {
namespace {

constexpr int kTile = 4;  // queries, keys and positions of a page that a kernel handles together

int rounded_up(int position) {
  return (position + kTile - 1) / kTile * kTile;
}

}  // namespace

/// Consumers that are handed less, or more, than their owner has.
KeyRange Faulty::visible_to_consumer(const CallShape& call, KeyRange range) const {
  switch (fault_) {
    case FaultKind::consumer_reads_current_chunk:
      range.first = std::max(range.first, call.past);
      break;
    case FaultKind::consumer_reads_before_append:
      if (call.cached) range.last = std::min(range.last, call.past - 1);
      break;
    case FaultKind::consumer_reads_by_capacity:
      if (call.cached) range.last = call.start + call.capacity - 1;
      break;
    case FaultKind::consumer_keys_cut_to_query_length:
      if (later(call)) range.last = std::min(range.last, call.start + call.tokens - 1);
      break;
    case FaultKind::window_missing_for_consumers:
      range.first = 0;
      break;
    default:
      break;
  }
  return range;
}

/// Windows of another width, for some calls or for all.
KeyRange Faulty::visible_in_window(const LayerPlan& layer, const CallShape& call, int query,
                                   KeyRange range) const {
  const bool prefills = call.tokens > 1;
  const int slot = layer.window > 0 ? (query - call.start) % layer.window : 0;
  switch (fault_) {
    case FaultKind::mask_after_first_layer:
      if (layer.layer > 0 && call.cached) range.first += 1, range.last += 1;
      break;
    case FaultKind::window_one_too_wide:
      range.first -= 1;
      break;
    case FaultKind::window_one_too_narrow:
      range.first += 1;
      break;
    case FaultKind::window_one_too_wide_in_prefill:
      range.first -= prefills;
      break;
    case FaultKind::window_one_too_wide_in_decode:
      range.first -= decodes(call);
      break;
    case FaultKind::window_one_too_narrow_in_prefill:
      range.first += prefills;
      break;
    case FaultKind::window_one_too_narrow_in_decode:
      range.first += decodes(call);
      break;
    case FaultKind::window_one_too_wide_for_consumers:
      range.first -= consumes(layer);
      break;
    case FaultKind::window_one_too_wide_without_cache:
      range.first -= !call.cached;
      break;
    case FaultKind::window_ignored_in_decode:
      if (decodes(call)) range.first = 0;
      break;
    case FaultKind::window_ignored_without_cache:
      if (!call.cached) range.first = 0;
      break;
    case FaultKind::window_missing:
      range.first = 0;
      break;
    case FaultKind::mask_tile_of_first_row:
      range.first -= (query - call.past) % kTile;
      break;
    case FaultKind::oldest_key_dropped_at_exact_window:
      range.first += call.cached && query - call.start == layer.window - 1;
      break;
    case FaultKind::validity_by_slot:  // slots behind the one just written count as unwritten
      if (decodes(call) && query - call.start >= layer.window) range.first = query - slot;
      break;
    case FaultKind::eviction_of_one_for_many:  // decode has no mask: it sees all that is kept
      if (decodes(call)) range.first = 0;
      break;
    default:
      break;
  }
  return range;
}

/// Masks and ranges made once for a whole chunk.
KeyRange Faulty::visible_in_chunk(const LayerPlan& layer, const CallShape& call, int query,
                                  KeyRange range) const {
  const int end = call.past + call.tokens - 1;  // the last key there is
  const bool slides = layer.window > 0, prefills = call.tokens > 1;
  switch (fault_) {
    case FaultKind::one_lower_bound_per_chunk:
      if (slides && call.cached) range.first = call.past - layer.window + 1;
      break;
    case FaultKind::mask_from_zero_in_later_chunk:
      if (later(call) && prefills) range.first = 0, range.last = query - call.past;
      break;
    case FaultKind::keys_cut_to_trailing_window:
      if (slides) range.first = std::max(range.first, end - layer.window + 1);
      break;
    case FaultKind::causal_bound_rounded_up:
      range.last = std::min(query | (kTile - 1), end);
      break;
    case FaultKind::only_window_rows_computed:
      if (slides && query <= end - layer.window) range.last = range.first - 1;
      break;
    case FaultKind::later_chunk_loses_cache:
      if (slides && later(call) && prefills) range.first = std::max(range.first, call.past);
      break;
    case FaultKind::decode_reads_unwritten_key:
      if (decodes(call)) range.last = std::min(query + 1, call.start + call.capacity - 1);
      break;
    default:
      break;
  }
  return range;
}

/// Plans that were made for another call.
KeyRange Faulty::visible_in_replay(const LayerPlan& layer, const CallShape& call, int query,
                                   KeyRange range) const {
  const int behind = call.past - call.first_row_past;
  switch (fault_) {
    case FaultKind::plan_of_first_decode_replayed:
      if (!decodes(call) || layer.window > 0) break;
      if (captured_ < 0) captured_ = query;
      range.last = std::min(range.last, captured_);
      break;
    case FaultKind::graph_bucket_of_two:
      if (decodes(call) && call.row >= 2) range.first -= behind, range.last -= behind;
      break;
    case FaultKind::last_column_of_table_missing:
      if (call.cached && query == call.start + call.capacity - 1) range.last -= 1;
      break;
    default:
      break;
  }
  return range;
}

KeyRange Faulty::visible(const LayerPlan& layer, const CallShape& call, int query) const {
  KeyRange range = Healthy::visible(layer, call, query);
  if (consumes(layer)) range = visible_to_consumer(call, range);
  if (is(FaultKind::window_on_full_consumers) && consumes(layer) && window_ > 0)
    range.first = std::max(range.first, query - window_ + 1);
  if (layer.window > 0) range = visible_in_window(layer, call, query, range);
  range = visible_in_chunk(layer, call, query, range);
  range = visible_in_replay(layer, call, query, range);
  range.first = std::max(range.first, 0);
  return range;
}

int Faulty::first_kept(const LayerPlan& layer, int start, int mark, int margin, int tokens,
                       int first) const {
  const int needed = std::max(start, mark - layer.window + 1);  // with no margin
  if (layer.window == 0) {
    const bool evicts = is(FaultKind::full_layers_evict) && window_ > 0;
    return evicts ? std::max(start, mark - window_ + 1) : start;
  }
  switch (fault_) {
    case FaultKind::window_ignored_in_decode:
    case FaultKind::window_missing:
    case FaultKind::window_missing_for_consumers:
      return start;
    case FaultKind::window_one_too_wide:  // a cache as wide as the mask
    case FaultKind::window_one_too_wide_in_decode:
    case FaultKind::window_one_too_wide_in_prefill:
    case FaultKind::window_one_too_wide_for_consumers:
    case FaultKind::mask_tile_of_first_row:
      return Healthy::first_kept(layer, start, mark, margin + kTile, tokens, first);
    case FaultKind::eviction_of_one_for_many:
      return std::min(needed, first + 1);
    case FaultKind::eviction_counts_chunk_twice:
      return tokens > 1 ? std::max(start, needed + tokens - 1) : needed;
    case FaultKind::page_rounded_up:
      return needed > start ? rounded_up(needed) : needed;
    default:
      return Healthy::first_kept(layer, start, mark, margin, tokens, first);
  }
}

bool Faulty::refuses_rewind() const {
  switch (fault_) {
    case FaultKind::accepts_rewind_past_window:
    // Those that keep no margin serve a rewind with what is left.
    case FaultKind::full_layers_evict:
    case FaultKind::eviction_of_one_for_many:
    case FaultKind::eviction_counts_chunk_twice:
    case FaultKind::page_rounded_up:
      return false;
    default:
      return true;
  }
}

}  // namespace kvconform
