// The key/value cache of the reference, written to be read.
//
// Only owners have storage. A full layer grows with the row; a sliding layer keeps the W − 1
// positions that a next query can see, and `margin` more so that a row can be rewound after the
// window has wrapped. Entries lie in the order of their positions: no ring, no physical slots,
// nothing to get wrong by one.
//
// Each row has its own length. `mark` is the longest length since the row was opened or emptied:
// a sliding layer keeps [mark − margin − W + 1, length). A rewind to n is exact iff every position
// in [n − W + 1, n) is still there; it is refused otherwise, and nothing changes.
//
//   KvCache<Float32> cache(plan, {.batch = 2, .capacity = 64, .margin = 8});
//   model.extend(cache, {{1, 2, 3}, {4}});
//   cache.rewind({2, 1});
//
// Errors: KV1420 (rewind beyond what is kept), KV1421 (lengths), KV1422 (rows), KV1423 (saved
// file).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "reference/decisions.h"
#include "reference/key_values.h"
#include "reference/matrix.h"
#include "reference/numerics.h"

namespace kvconform {

struct CacheShape {
  int batch = 1;
  int capacity = 0;  ///< largest number of tokens a row will hold
  int margin = 8;    ///< how far behind its longest length a row can be rewound for sure
  int start = 0;     ///< position of each row's first token
};

/// Memory is reserved in multiples of so many positions.
inline constexpr int kCacheGranularity = 16;

template <class N, class Decisions = Healthy>
class KvCache {
 public:
  using S = typename N::Scalar;

  KvCache(const std::vector<LayerPlan>& plan, const CacheShape& shape, Decisions decisions = {});

  const CacheShape& shape() const { return shape_; }
  int batch() const { return static_cast<int>(rows_.size()); }
  int length(int row) const { return rows_[row].length; }  ///< tokens taken, minus rewinds

  /// Adds new positions of one row to an owner's storage and shows all that is kept, the new ones
  /// included. Trimming waits for `advance`, since consumers read the same view later in the
  /// forward.
  KeyValues<S> append(int row, const LayerPlan& layer, const Matrix<S>& keys,
                      const Matrix<S>& values);

  /// What an owner's slot holds for a row.
  KeyValues<S> view(int row, const LayerPlan& layer) const;

  /// Ends a forward: the row is `tokens` longer, and sliding layers forget what no query can see.
  void advance(int row, int tokens);

  void rewind(const std::vector<int>& lengths);
  void reorder(const std::vector<int>& source_rows);

  void save(std::ostream& out) const;
  /// Reads what `save` wrote for the same plan; shape and lengths come from the file.
  static KvCache restore(const std::vector<LayerPlan>& plan, std::istream& in,
                         Decisions decisions = {});

  std::int64_t positions(
      const LayerPlan& layer) const;  ///< that a later query could be shown, all rows
  std::int64_t bytes(const LayerPlan& layer) const;  ///< reserved, all rows

 private:
  struct Slot {
    int first = 0;
    std::vector<S> keys, values;
  };
  struct Row {
    int length = 0;
    int mark = 0;
    std::vector<Slot> slots;
  };

  static int width(const LayerPlan& layer) { return layer.key_value_heads * layer.head_dim; }
  static int count(const LayerPlan& layer, const Slot& slot) {
    return static_cast<int>(slot.keys.size()) / width(layer);
  }
  Row empty_row() const;
  bool can_rewind(const Row& row, int length) const;
  void rewind_row(Row& row, int length);

  std::vector<LayerPlan> owners_;  ///< in slot order
  CacheShape shape_;
  Decisions decisions_;
  std::vector<Row> rows_;
};

}  // namespace kvconform

#include "reference/kv_cache.hpp"
