// Frequencies, angles, tables.
#include "cuda/rope_tables.h"

#include <sleef.h>

#include <algorithm>

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

float frequency(const Rope& rope, int pair, int head_dim) {
  if (rope.kind == Rope::Kind::proportional) {
    const int rotated = int(rope.partial_rotary_factor * head_dim) / 2;
    if (pair >= rotated) return 0.f;  // its partner stays pair + D/2; only the angle is zero
  }
  const float exponent = float(2 * pair) / float(head_dim);
  const float plain = 1.f / Sleef_cinz_powf1_u10purec(float(rope.theta), exponent);
  return rope.kind == Rope::Kind::plain && rope.factor == 1.0 ? plain : plain / float(rope.factor);
}

std::vector<float> table(const Rope& rope, int head_dim, int start, int capacity) {
  const int half = head_dim / 2;
  std::vector<float> values(std::size_t(capacity) * head_dim);
  for (int i = 0; i < half; ++i) {
    const float f = frequency(rope, i, head_dim);
    for (int p = 0; p < capacity; ++p) {
      const float angle = float(start + p) * f;
      values[std::size_t(p) * head_dim + i] = Sleef_cinz_cosf1_u10purec(angle);
      values[std::size_t(p) * head_dim + half + i] = Sleef_cinz_sinf1_u10purec(angle);
    }
  }
  return values;
}

struct Kind {
  Rope rope;
  int head_dim, device;
  bool operator==(const Kind&) const = default;
};

/// The different tables that the layers need, and which of them each layer reads.
struct KindsOfLayers {
  std::vector<Kind> kinds;
  std::vector<int> of_layer;

  KindsOfLayers(const std::vector<LayerPlan>& plan, const std::vector<int>& devices) {
    for (const LayerPlan& layer : plan) {
      const Kind kind{layer.rope, layer.head_dim, devices[layer.layer]};
      const auto known = std::find(kinds.begin(), kinds.end(), kind);
      of_layer.push_back(int(known - kinds.begin()));
      if (known == kinds.end()) kinds.push_back(kind);
    }
  }
};

int positions_of(int capacity) {
  return std::max(1, capacity);
}

}  // namespace

RopeTables::RopeTables(const std::vector<LayerPlan>& plan, const std::vector<int>& devices,
                       int start, int capacity) {
  KindsOfLayers needed(plan, devices);
  table_of_layer_ = std::move(needed.of_layer);
  for (const Kind& kind : needed.kinds) {
    const auto values = table(kind.rope, kind.head_dim, start, positions_of(capacity));
    tables_.emplace_back(kind.device, values.size(), "rotary table");
    tables_.back().upload(values.data());
  }
}

std::size_t RopeTables::floats(const std::vector<LayerPlan>& plan, int capacity) {
  std::size_t sum = 0;
  for (const Kind& kind : KindsOfLayers(plan, std::vector<int>(plan.size())).kinds)
    sum += std::size_t(positions_of(capacity)) * kind.head_dim;
  return sum;
}

}  // namespace kvconform::cuda::inline DV_MACHINE
