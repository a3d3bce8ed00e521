// Storage of keys and values: one slot for each owner of the plan, none for consumers. Keys stand
// after norm and rotation, values after their norm, [row, head, slot, D]; position p lies in slot
// p mod S, so attention depends on positions and never on S. Full layers have a slot for each
// position of the capacity, wherever it begins; sliding layers are rings of W − 1 + max(chunk,
// reserve).
//
// Layers may be spread over devices: an owner has a copy on its own device and one on each device
// that has readers of it, never one a reader. Writing takes an OwnerCache, which only `owner` and
// `copies` hand out, to the one place that appends; whoever reads gets a CacheView.
#pragma once

#include <vector>

#include "cuda/device/device_array.h"
#include "cuda/kernels/kernels.h"
#include "reference/layer_plan.h"

namespace kvconform::cuda::inline DV_MACHINE {

struct StoreShape {
  int batch = 1;
  int capacity = 0;  ///< positions of a row
  int chunk = 1;     ///< most new positions of a row in one launch
  int reserve = 0;   ///< how far behind its mark a row can be rewound
  int granularity = 64;
  bool everything = false;  ///< sliding layers keep all positions too
};

class KeyValueStore {
 public:
  struct Copy {
    int device;
    OwnerCache cache;
  };

  KeyValueStore(const std::vector<LayerPlan>& plan, const std::vector<int>& devices,
                const StoreShape& shape);

  /// Before there is a store: what an owner's layer keeps of each row, and the bytes of all rows.
  static int slots_of(const LayerPlan& layer, const StoreShape& shape);
  static std::size_t bytes_of(const LayerPlan& owner, const StoreShape& shape);

  CacheView view(const LayerPlan& layer, int device) const;
  /// All copies of an owner's slot, its own device's first.
  const std::vector<Copy>& copies(const LayerPlan& owner) const;

  int slots(const LayerPlan& layer) const;
  std::int64_t bytes(const LayerPlan& layer) const;  ///< reserved, on its own device

  /// NaN for the positions [from, to) of a row, in every slot and copy.
  void poison(int row, int from, int to);
  /// The same rows from another store of the same shape; row r from rows[r].
  void take(const KeyValueStore& other, const std::vector<int>& rows);
  /// One position's keys or values of a row, [nK, D], to or from the host.
  void read(const LayerPlan& owner, int row, int position, float* keys, float* values) const;
  void write(const LayerPlan& owner, int row, int position, const float* keys, const float* values);

 private:
  struct Slot {
    LayerPlan layer;
    int slots = 0;
    std::vector<dv::DeviceArray<float>> memory;  ///< keys and values of each copy, in turn
    std::vector<Copy> copies;
  };

  std::size_t row_numbers(const Slot& slot) const {
    return std::size_t(slot.layer.key_value_heads) * slot.slots * slot.layer.head_dim;
  }
  template <class Visit>
  void for_heads(const LayerPlan& owner, int row, int position, Visit visit) const;

  StoreShape shape_;
  std::vector<Slot> slots_;  ///< by LayerPlan::cache_slot
};

}  // namespace kvconform::cuda::inline DV_MACHINE
