// Faults in what is kept of keys and values, how it is read, and what a rewind, a restore or a
// reorder leaves.
#include <algorithm>
#include <cmath>

#include "properties/faults/faulty_decisions.h"

namespace kvconform {
namespace {

constexpr float kCodes = 127;         // of an eight-bit store
constexpr float kOtherScale = 0.75F;  // what a reader's own scale is to the writer's
constexpr int kWraps = 1 << 16;       // positions that a 32-bit offset reaches at 64 KiB each

void move_position(const KeyValues<float>& from, int source, std::vector<float>& keys,
                   std::vector<float>& values, int target) {
  const auto at = std::ptrdiff_t(target - from.first) * from.width;
  std::copy_n(from.key(source), from.width, keys.begin() + at);
  std::copy_n(from.value(source), from.width, values.begin() + at);
}

void zero_from(int position, const KeyValues<float>& view, std::vector<float>& keys,
               std::vector<float>& values) {
  const int kept = std::clamp(position - view.first, 0, view.count);
  const auto begin = std::ptrdiff_t(kept) * view.width;
  std::fill(keys.begin() + begin, keys.end(), 0.0F);
  std::fill(values.begin() + begin, values.end(), 0.0F);
}

/// A ring of W slots takes a whole chunk before anybody reads: of the positions that share a slot
/// the last one is left.
void overwrite_ring(int window, const KeyValues<float>& kept, std::vector<float>& keys,
                    std::vector<float>& values) {
  const int last = kept.first + kept.count - 1;
  for (int p = kept.first; p <= last; ++p)
    move_position(kept, p + (last - p) / window * window, keys, values, p);
}

/// The W positions before a chunk, read in the order of their slots as if it were that of time.
void read_ring_by_slot(int window, const CallShape& call, const KeyValues<float>& kept,
                       std::vector<float>& keys, std::vector<float>& values) {
  const int oldest = call.past - window;
  if (oldest < std::max(kept.first, call.start)) return;
  for (int slot = 0; slot < window; ++slot) {
    const int since = (slot - (oldest - call.start) % window + window) % window;
    move_position(kept, oldest + since, keys, values, oldest + slot);
  }
}

/// x → round(127·x / largest) of each position: what an eight-bit store holds, its scale left out.
void leave_codes(const KeyValues<float>& kept, std::vector<float>& numbers) {
  for (int i = 0; i < kept.count; ++i) {
    float* row = numbers.data() + std::size_t(i) * kept.width;
    float largest = 0;
    for (int d = 0; d < kept.width; ++d) largest = std::max(largest, std::abs(row[d]));
    if (!(largest > 0)) continue;
    for (int d = 0; d < kept.width; ++d) row[d] = std::nearbyint(kCodes * row[d] / largest);
  }
}

void scale(std::vector<float>& numbers, float factor) {
  for (float& x : numbers) x *= factor;
}

}  // namespace

KeyValues<float> Faulty::copy_of(const KeyValues<float>& kept, int more) const {
  const std::size_t had = std::size_t(kept.count) * kept.width;
  const std::size_t has = had + std::size_t(std::max(0, more)) * kept.width;
  keys_.assign(has, 0);
  values_.assign(has, 0);
  std::copy_n(kept.keys, had, keys_.begin());
  std::copy_n(kept.values, had, values_.begin());
  return {kept.first, kept.count + std::max(0, more), kept.width, keys_.data(), values_.data()};
}

void Faulty::prepare_to_keep(const LayerPlan& layer, const CallShape& call, Matrix<float>& keys,
                             Matrix<float>& values) const {
  switch (fault_) {
    case FaultKind::values_are_rotated_keys:
      if (call.cached && layer.window == 0) values = keys;
      break;
    case FaultKind::shared_projection_normed_for_values:
      if (layer.values_from_keys) values = keys;
      break;
    case FaultKind::kept_in_float16:
      if (!call.cached) break;
      for (float& x : keys.values) x = Float16::store(x);
      for (float& x : values.values) x = Float16::store(x);
      break;
    default:
      break;
  }
}

KeyValues<float> Faulty::as_read(const LayerPlan& reader, const CallShape& call,
                                 const KeyValues<float>& kept) const {
  const bool cached_consumer = consumes(reader) && call.cached;
  const bool ring = reader.window > 0 && call.cached;
  const int unwritten = call.start + call.capacity - kept.first - kept.count;
  KeyValues<float> read = kept;
  switch (fault_) {
    case FaultKind::consumer_reads_empty_cache:
      if (!cached_consumer) break;
      read = copy_of(kept);
      zero_from(kept.first, kept, keys_, values_);
      break;
    case FaultKind::consumer_reads_by_capacity:
      if (cached_consumer) read = copy_of(kept, unwritten);
      break;
    case FaultKind::decode_reads_unwritten_key:
      if (decodes(call)) read = copy_of(kept, std::min(1, unwritten));
      break;
    case FaultKind::consumer_reads_other_page_map:  // the page map of layers that keep everything
      if (cached_consumer && ring) read.first = call.start;
      break;
    case FaultKind::ring_index_runs_over:
      if (!ring) break;
      read = copy_of(kept);
      zero_from(call.start + reader.window, kept, keys_, values_);
      break;
    case FaultKind::ring_written_before_attending:
      if (!ring || call.tokens <= reader.window) break;
      read = copy_of(kept);
      overwrite_ring(reader.window, kept, keys_, values_);
      break;
    case FaultKind::ring_order_ignored_by_chunk:
      if (!ring || call.tokens == 1) break;
      read = copy_of(kept);
      read_ring_by_slot(reader.window, call, kept, keys_, values_);
      break;
    case FaultKind::consumer_reads_quantised_codes:
      if (!cached_consumer) break;
      read = copy_of(kept);
      leave_codes(kept, keys_);
      leave_codes(kept, values_);
      break;
    case FaultKind::consumer_reads_with_own_scale:
      if (!cached_consumer) break;
      read = copy_of(kept);
      scale(keys_, kOtherScale);
      scale(values_, kOtherScale);
      break;
    case FaultKind::address_wraps_at_32_bits:
      if (kept.first + kept.count <= kWraps) break;
      read = copy_of(kept);
      zero_from(kWraps, kept, keys_, values_);
      break;
    default:
      break;
  }
  return read;
}

void Faulty::arrange_restored(const LayerPlan& layer, std::vector<float>& keys,
                              std::vector<float>& values) const {
  const std::size_t width = std::size_t(layer.key_value_heads) * layer.head_dim;
  const std::size_t ring = std::size_t(layer.window) * width;
  if (ring == 0 || keys.size() < ring) return;
  for (std::vector<float>* numbers : {&keys, &values}) {
    if (is(FaultKind::ring_saved_in_physical_order))
      std::rotate(numbers->end() - std::ptrdiff_t(ring), numbers->end() - std::ptrdiff_t(width),
                  numbers->end());
    if (is(FaultKind::restore_drops_windowed_keys))
      std::fill(numbers->begin(), numbers->end(), 0.0F);
  }
}

int Faulty::rewound_length(const std::vector<LayerPlan>& owners, const std::vector<int>& lengths,
                           int row, int current) const {
  const int wanted = lengths[row];
  const bool slides = std::any_of(owners.begin(), owners.end(),
                                  [](const LayerPlan& layer) { return layer.window > 0; });
  switch (fault_) {
    case FaultKind::rewind_does_nothing_after_wrap:
      return slides && current > window_ ? current : wanted;
    case FaultKind::rewind_to_longest_row:
      return std::min(current, *std::max_element(lengths.begin(), lengths.end()));
    case FaultKind::rewind_one_short:
      return wanted > 0 ? std::min(current, wanted + 1) : 0;
    case FaultKind::rewind_answers_from_windowed_layers:
      return slides ? std::min(wanted, window_) : wanted;
    default:
      return wanted;
  }
}

bool Faulty::rewind_drops_keys(const LayerPlan& layer) const {
  if (is(FaultKind::rewind_lowers_counters_only)) return false;
  if (is(FaultKind::rewind_keeps_keys)) return layer.window == 0;
  if (is(FaultKind::rewind_keeps_keys_of_full_layers)) return layer.window > 0;
  return true;
}

int Faulty::reorder_source(const LayerPlan& layer, int row, const std::vector<int>& sources) const {
  if (is(FaultKind::reorder_moves_full_layers_only) && layer.window > 0) return row;
  int source = sources[row];
  // In place, a row above has already been replaced by its own source.
  while (is(FaultKind::reorder_in_place) && source < row) {
    row = source;
    source = sources[row];
  }
  return source;
}

}  // namespace kvconform
