// Sizes of rings, copies on devices, moving rows.
#include "cuda/key_value_store.h"

#include <algorithm>
#include <string>

#include "reference/error.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

int rounded_up(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Devices of a slot's copies: the owner's, then those of its readers.
std::vector<int> devices_of(const LayerPlan& owner, const std::vector<LayerPlan>& plan,
                            const std::vector<int>& devices) {
  std::vector<int> found = {devices[owner.layer]};
  for (const LayerPlan& reader : plan) {
    const int device = devices[reader.layer];
    if (reader.owner == owner.layer && std::find(found.begin(), found.end(), device) == found.end())
      found.push_back(device);
  }
  return found;
}

}  // namespace

int KeyValueStore::slots_of(const LayerPlan& layer, const StoreShape& shape) {
  const int linear = std::max(shape.granularity, rounded_up(shape.capacity, shape.granularity));
  if (layer.window == 0 || shape.everything) return linear;
  const std::int64_t ring =
      std::int64_t(layer.window) - 1 + std::max({1, shape.chunk, shape.reserve});
  if (ring >= linear) return linear;
  return std::min(linear, rounded_up(int(ring), shape.granularity));
}

std::size_t KeyValueStore::bytes_of(const LayerPlan& owner, const StoreShape& shape) {
  return 2 * sizeof(float) * shape.batch * owner.key_value_heads * owner.head_dim *
         slots_of(owner, shape);
}

KeyValueStore::KeyValueStore(const std::vector<LayerPlan>& plan, const std::vector<int>& devices,
                             const StoreShape& shape)
    : shape_(shape) {
  for (const LayerPlan& layer : plan) {
    if (!layer.owns_keys()) continue;
    Slot slot{layer, slots_of(layer, shape), {}, {}};
    const std::size_t numbers = row_numbers(slot) * shape.batch;
    for (int device : devices_of(layer, plan, devices)) {
      const std::string of = " of layer " + std::to_string(layer.layer);
      slot.memory.emplace_back(device, numbers, ("keys" + of).c_str());
      float* keys = slot.memory.back().data();
      slot.memory.emplace_back(device, numbers, ("values" + of).c_str());
      slot.copies.push_back({device, {keys, slot.memory.back().data(), slot.slots}});
    }
    slots_.push_back(std::move(slot));
  }
}

CacheView KeyValueStore::view(const LayerPlan& layer, int device) const {
  for (const Copy& copy : slots_[layer.cache_slot].copies)
    if (copy.device == device) return copy.cache;
  throw HarnessError("KV1590",
                     "layer " + std::to_string(layer.layer) + " on device " +
                         std::to_string(device) + " has no copy of the keys of layer " +
                         std::to_string(layer.owner) + " there",
                     "report this: the sharing plan and the store disagree");
}

const std::vector<KeyValueStore::Copy>& KeyValueStore::copies(const LayerPlan& owner) const {
  return slots_[owner.cache_slot].copies;
}

int KeyValueStore::slots(const LayerPlan& layer) const {
  return slots_[layer.cache_slot].slots;
}

std::int64_t KeyValueStore::bytes(const LayerPlan& layer) const {
  if (!layer.owns_keys()) return 0;
  return std::int64_t(slots_[layer.cache_slot].memory[0].bytes()) * 2;
}

void KeyValueStore::poison(int row, int from, int to) {
  for (Slot& slot : slots_) {
    const std::size_t bytes = std::size_t(slot.layer.head_dim) * sizeof(float);
    for (const auto& memory : slot.memory) {
      dv::use_device(memory.device());
      float* rows = memory.data() + row_numbers(slot) * row;
      for (int head = 0; head < slot.layer.key_value_heads; ++head)
        for (int p = std::max(from, to - slot.slots); p < to; ++p)
          dv::fill(rows + (std::size_t(head) * slot.slots + p % slot.slots) * slot.layer.head_dim,
                   0xff, bytes);
    }
  }
}

void KeyValueStore::take(const KeyValueStore& other, const std::vector<int>& rows) {
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    const std::size_t numbers = row_numbers(slots_[s]);
    for (std::size_t m = 0; m < slots_[s].memory.size(); ++m) {
      const auto& to = slots_[s].memory[m];
      dv::use_device(to.device());
      for (std::size_t r = 0; r < rows.size(); ++r)
        dv::copy(to.data() + numbers * r, other.slots_[s].memory[m].data() + numbers * rows[r],
                 numbers * sizeof(float));
    }
  }
}

template <class Visit>
void KeyValueStore::for_heads(const LayerPlan& owner, int row, int position, Visit visit) const {
  const Slot& slot = slots_[owner.cache_slot];
  for (int head = 0; head < owner.key_value_heads; ++head)
    visit(row_numbers(slot) * row +
              (std::size_t(head) * slot.slots + position % slot.slots) * owner.head_dim,
          std::size_t(head) * owner.head_dim);
}

void KeyValueStore::read(const LayerPlan& owner, int row, int position, float* keys,
                         float* values) const {
  const Copy& copy = copies(owner).front();
  const std::size_t bytes = std::size_t(owner.head_dim) * sizeof(float);
  dv::use_device(copy.device);
  for_heads(owner, row, position, [&](std::size_t from, std::size_t to) {
    dv::download(keys + to, copy.cache.keys + from, bytes);
    dv::download(values + to, copy.cache.values + from, bytes);
  });
}

void KeyValueStore::write(const LayerPlan& owner, int row, int position, const float* keys,
                          const float* values) {
  const std::size_t bytes = std::size_t(owner.head_dim) * sizeof(float);
  for (const Copy& copy : copies(owner)) {
    dv::use_device(copy.device);
    for_heads(owner, row, position, [&](std::size_t to, std::size_t from) {
      dv::upload(copy.cache.keys + to, keys + from, bytes);
      dv::upload(copy.cache.values + to, values + from, bytes);
    });
  }
}

}  // namespace kvconform::cuda::inline DV_MACHINE
