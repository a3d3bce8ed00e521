// Cosines and sines of every position that a session can reach, made once on the host with SLEEF's
// deterministic functions: the same bits on every machine and nothing to approximate on a device.
// One table for each different (rotary embedding, head dimension); a row is D/2 cosines, then D/2
// sines. The frequencies are the engine's own reading of model-spec.md, section 4.
#pragma once

#include <vector>

#include "cuda/device/device_array.h"
#include "reference/layer_plan.h"

namespace kvconform::cuda::inline DV_MACHINE {

class RopeTables {
 public:
  /// For positions [start, start + capacity); on every device that has layers.
  RopeTables(const std::vector<LayerPlan>& plan, const std::vector<int>& devices, int start,
             int capacity);
  /// What the tables of layers on one device hold.
  static std::size_t floats(const std::vector<LayerPlan>& plan, int capacity);

  const float* of(int layer) const { return tables_[table_of_layer_[layer]].data(); }

 private:
  std::vector<int> table_of_layer_;
  std::vector<dv::DeviceArray<float>> tables_;
};

}  // namespace kvconform::cuda::inline DV_MACHINE
