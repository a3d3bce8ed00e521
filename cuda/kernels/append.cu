// New keys and values into their owner's cache: position p goes to slot p mod slots of its row. The
// one kernel that writes to a cache.
#include "cuda/kernels/elementwise.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

struct Append {
  const float *keys, *values;
  OwnerCache cache;
  const TokenPlace* places;
  int heads, head_dim;
  DV_FN void operator()(std::size_t i) const {
    const int d = int(i % head_dim), h = int(i / head_dim % heads);
    const TokenPlace place = places[i / head_dim / heads];
    int slot = place.position % cache.slots;
    if (FAULT(append_slot_after_the_wrap) && place.position >= cache.slots)
      slot = (slot + 1) % cache.slots;
    std::size_t to = ((std::size_t(place.row) * heads + h) * cache.slots + slot) * head_dim + d;
    // 32 bits of bytes: two caches of 4 GiB lie on each other. Scaled down: 16 bits of numbers.
    if (FAULT(append_32_bit_offset)) to &= 0xff;
    cache.keys[to] = keys[i];
    cache.values[to] = values[i];
  }
};

}  // namespace

void append_to_cache(const float* keys, const float* values, const OwnerCache& cache,
                     const TokenPlace* places, int tokens, int heads, int head_dim) {
  launch_elementwise("append_to_cache", std::size_t(tokens) * heads * head_dim,
                     Append{keys, values, cache, places, heads, head_dim});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
