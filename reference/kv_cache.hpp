// Definitions of kv_cache.h.
#pragma once

#include <cstring>
#include <istream>
#include <ostream>
#include <string>

#include "reference/counted.h"
#include "reference/error.h"
#include "reference/kv_cache.h"

namespace kvconform {

template <class N, class D>
KvCache<N, D>::KvCache(const std::vector<LayerPlan>& plan, const CacheShape& shape, D decisions)
    : shape_(shape), decisions_(decisions) {
  for (const LayerPlan& layer : plan)
    if (layer.owns_keys()) owners_.push_back(layer);
  rows_.assign(shape.batch, empty_row());
}

template <class N, class D>
auto KvCache<N, D>::empty_row() const -> Row {
  Row row;
  row.slots.resize(owners_.size());
  for (Slot& slot : row.slots) slot.first = shape_.start;
  return row;
}

template <class N, class D>
auto KvCache<N, D>::append(int row, const LayerPlan& layer, const Matrix<S>& keys,
                           const Matrix<S>& values) -> KeyValues<S> {
  Slot& slot = rows_[row].slots[layer.cache_slot];
  const int times = decisions_.times_appended(layer);
  const std::size_t needed = slot.keys.size() + times * keys.values.size();
  const std::size_t block = std::size_t(kCacheGranularity) * width(layer);
  const std::size_t reserved = (needed + block - 1) / block * block;
  if (needed > slot.keys.capacity()) {
    slot.keys.reserve(reserved);
    slot.values.reserve(reserved);
  }
  for (int i = 0; i < times; ++i) {
    const int index =
        decisions_.write_index(count(layer, slot), count(layer, rows_[0].slots[layer.cache_slot]));
    const auto at = std::ptrdiff_t(index) * width(layer);
    slot.keys.insert(slot.keys.begin() + at, keys.values.begin(), keys.values.end());
    slot.values.insert(slot.values.begin() + at, values.values.begin(), values.values.end());
  }
  return view(row, layer);
}

template <class N, class D>
auto KvCache<N, D>::view(int row, const LayerPlan& layer) const -> KeyValues<S> {
  const Slot& slot = rows_[row].slots[layer.cache_slot];
  return {slot.first, count(layer, slot), width(layer), slot.keys.data(), slot.values.data()};
}

template <class N, class D>
void KvCache<N, D>::advance(int row, int tokens) {
  Row& r = rows_[row];
  r.length += tokens;
  r.mark = std::max(r.mark, r.length);
  for (const LayerPlan& layer : owners_) {
    Slot& slot = r.slots[layer.cache_slot];
    const int end = slot.first + count(layer, slot);
    const int first =
        std::min(end, decisions_.first_kept(layer, shape_.start, shape_.start + r.mark,
                                            shape_.margin, tokens, slot.first));
    if (first <= slot.first) continue;
    const auto gone = std::ptrdiff_t(first - slot.first) * width(layer);
    slot.keys.erase(slot.keys.begin(), slot.keys.begin() + gone);
    slot.values.erase(slot.values.begin(), slot.values.begin() + gone);
    slot.first = first;
  }
}

template <class N, class D>
bool KvCache<N, D>::can_rewind(const Row& row, int length) const {
  if (length == 0 || length == row.length) return true;
  for (const LayerPlan& layer : owners_) {
    if (layer.window == 0) continue;
    const int needed = std::max(shape_.start, shape_.start + length - layer.window + 1);
    if (needed < row.slots[layer.cache_slot].first) return false;
  }
  return true;
}

template <class N, class D>
void KvCache<N, D>::rewind_row(Row& row, int length) {
  if (length == 0) {
    row = empty_row();
    return;
  }
  for (const LayerPlan& layer : owners_) {
    Slot& slot = row.slots[layer.cache_slot];
    if (!decisions_.rewind_drops_keys(layer)) continue;
    const int kept = std::max(0, shape_.start + length - slot.first);
    if (kept >= count(layer, slot)) continue;
    slot.keys.resize(std::size_t(kept) * width(layer));
    slot.values.resize(std::size_t(kept) * width(layer));
  }
  row.length = length;
}

template <class N, class D>
void KvCache<N, D>::rewind(const std::vector<int>& lengths) {
  if (lengths.size() != rows_.size())
    throw Error("KV1422",
                "rewind names " + counted(lengths.size(), "length") + " for a batch of " +
                    std::to_string(rows_.size()),
                "give one length a row");
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (lengths[r] < 0 || lengths[r] > rows_[r].length)
      throw Error("KV1421",
                  "row " + std::to_string(r) + " cannot be rewound to length " +
                      std::to_string(lengths[r]) + ": it holds " +
                      counted(rows_[r].length, "token"),
                  "give a length from 0 to the row's own");
    if (decisions_.refuses_rewind() && !can_rewind(rows_[r], lengths[r]))
      throw Error(
          "KV1420",
          "row " + std::to_string(r) + " cannot be rewound to length " +
              std::to_string(lengths[r]) +
              ": a sliding layer has already forgotten keys that its next query would see "
              "(longest length " +
              std::to_string(rows_[r].mark) + ", margin " + std::to_string(shape_.margin) + ")",
          "rewind by at most the margin, rewind to 0, or open the cache with a larger margin");
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const int length =
        decisions_.rewound_length(owners_, lengths, static_cast<int>(r), rows_[r].length);
    if (length != rows_[r].length) rewind_row(rows_[r], length);
  }
}

template <class N, class D>
void KvCache<N, D>::reorder(const std::vector<int>& source_rows) {
  if (source_rows.size() != rows_.size())
    throw Error("KV1422",
                "reorder names " + counted(source_rows.size(), "row") + " for a batch of " +
                    std::to_string(rows_.size()),
                "name exactly one source row for each row");
  for (int source : source_rows)
    if (source < 0 || source >= batch())
      throw Error("KV1422",
                  "reorder names row " + std::to_string(source) + " of a batch of " +
                      std::to_string(batch()),
                  "name rows from 0 to batch − 1");
  std::vector<Row> reordered(rows_.size());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    reordered[r] = rows_[source_rows[r]];
    for (const LayerPlan& layer : owners_)
      reordered[r].slots[layer.cache_slot] =
          rows_[decisions_.reorder_source(layer, static_cast<int>(r), source_rows)]
              .slots[layer.cache_slot];
  }
  rows_ = std::move(reordered);
}

template <class N, class D>
std::int64_t KvCache<N, D>::positions(const LayerPlan& layer) const {
  std::int64_t total = 0;
  if (!layer.owns_keys()) return 0;
  for (const Row& row : rows_) total += count(layer, row.slots[layer.cache_slot]);
  return total;
}

template <class N, class D>
std::int64_t KvCache<N, D>::bytes(const LayerPlan& layer) const {
  std::int64_t total = 0;
  if (!layer.owns_keys()) return 0;
  for (const Row& row : rows_) {
    const Slot& slot = row.slots[layer.cache_slot];
    total += std::int64_t(slot.keys.capacity() + slot.values.capacity()) * std::int64_t(sizeof(S));
  }
  return total;
}

// ---- saving
// -------------------------------------------------------------------------------------------
// Little-endian 64-bit counts, then raw scalars: a file for this machine and this scalar, checked
// on reading.

namespace kv_cache_file {
inline constexpr std::int64_t kMagic = 0x315643564b76636bLL;  // "kcvKVCV1"

inline void write_count(std::ostream& out, std::int64_t value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

[[noreturn]] inline void refuse(const std::string& problem) {
  throw Error("KV1423", "saved cache: " + problem,
              "restore a file that `save` wrote for the same model and precision");
}

inline std::int64_t read_count(std::istream& in, std::int64_t low, std::int64_t high,
                               const char* what) {
  std::int64_t value = 0;
  if (!in.read(reinterpret_cast<char*>(&value), sizeof value)) refuse("the file ends early");
  if (value < low || value > high)
    refuse(std::string(what) + " is " + std::to_string(value) + ", expected " +
           std::to_string(low) + " to " + std::to_string(high));
  return value;
}

template <class S>
void write_numbers(std::ostream& out, const std::vector<S>& numbers) {
  out.write(reinterpret_cast<const char*>(numbers.data()),
            std::streamsize(numbers.size() * sizeof(S)));
}

template <class S>
void read_numbers(std::istream& in, std::vector<S>& numbers) {
  if (!in.read(reinterpret_cast<char*>(numbers.data()),
               std::streamsize(numbers.size() * sizeof(S))))
    refuse("the file ends early");
}
}  // namespace kv_cache_file

template <class N, class D>
void KvCache<N, D>::save(std::ostream& out) const {
  using namespace kv_cache_file;
  for (std::int64_t value :
       {kMagic, std::int64_t(sizeof(S)), std::int64_t(owners_.size()), std::int64_t(shape_.batch),
        std::int64_t(shape_.capacity), std::int64_t(shape_.margin), std::int64_t(shape_.start)})
    write_count(out, value);
  for (const Row& row : rows_) {
    write_count(out, row.length);
    write_count(out, row.mark);
    for (const LayerPlan& layer : owners_) {
      const Slot& slot = row.slots[layer.cache_slot];
      write_count(out, width(layer));
      write_count(out, slot.first);
      write_count(out, count(layer, slot));
      write_numbers(out, slot.keys);
      write_numbers(out, slot.values);
    }
  }
  if (!out) throw HarnessError("KV1424", "saving a cache failed", "check the disk's free space");
}

template <class N, class D>
KvCache<N, D> KvCache<N, D>::restore(const std::vector<LayerPlan>& plan, std::istream& in,
                                     D decisions) {
  using namespace kv_cache_file;
  constexpr std::int64_t kMost = 1 << 28;
  read_count(in, kMagic, kMagic, "the first number");
  read_count(in, sizeof(S), sizeof(S), "the scalar's size");
  read_count(in, cache_slots(plan), cache_slots(plan), "the number of owners");
  CacheShape shape;
  shape.batch = static_cast<int>(read_count(in, 1, 1 << 16, "the batch"));
  shape.capacity = static_cast<int>(read_count(in, 0, kMost, "the capacity"));
  shape.margin = static_cast<int>(read_count(in, 0, kMost, "the margin"));
  shape.start = static_cast<int>(read_count(in, 0, kMost, "the start"));
  KvCache cache(plan, shape, decisions);
  for (Row& row : cache.rows_) {
    row.length = decisions.restored_length(
        static_cast<int>(read_count(in, 0, shape.capacity, "a row's length")));
    row.mark = static_cast<int>(read_count(in, row.length, shape.capacity, "a row's mark"));
    for (const LayerPlan& layer : cache.owners_) {
      Slot& slot = row.slots[layer.cache_slot];
      read_count(in, width(layer), width(layer), "a layer's key width");
      slot.first = static_cast<int>(
          read_count(in, shape.start, shape.start + row.mark, "a layer's first position"));
      const auto kept = read_count(in, 0, shape.capacity, "a layer's number of positions");
      slot.keys.resize(std::size_t(kept) * width(layer));
      slot.values.resize(slot.keys.size());
      read_numbers(in, slot.keys);
      read_numbers(in, slot.values);
      decisions.arrange_restored(layer, slot.keys, slot.values);
    }
  }
  return cache;
}

}  // namespace kvconform
