// Every buffer that a step needs, planned from (configuration, plan, sizes) when a session opens:
// one allocation a device, nothing allocated in a step. `parts` can be printed.
#pragma once

#include <string>
#include <vector>

#include "cuda/device/device_array.h"
#include "cuda/kernels/kernels.h"
#include "reference/layer_plan.h"

namespace kvconform::cuda::inline DV_MACHINE {

struct WorkspaceSizes {
  int tokens = 0;         ///< most of a launch, over all rows
  int batch = 1;          ///< rows; as many tokens are decoded at once
  int key_pieces = 1;     ///< most that a query can see
  bool any_form = false;  ///< room for the split forms at every size, not only for decoding
};

class Workspace {
 public:
  struct Part {
    std::string name;
    std::size_t offset, bytes;
  };

  Workspace(const ModelConfig& config, const std::vector<LayerPlan>& plan,
            const WorkspaceSizes& sizes, int device);

  /// The parts of such a workspace, and what they take together with their alignment.
  static std::vector<Part> planned(const ModelConfig& config, const std::vector<LayerPlan>& plan,
                                   const WorkspaceSizes& sizes);
  static std::size_t bytes_of(const std::vector<Part>& parts);

  const std::vector<Part>& parts() const { return parts_; }
  std::size_t bytes() const { return memory_.bytes(); }
  int device() const { return memory_.device(); }
  /// As at the beginning: NaN everywhere, so that reading what an earlier step left shows.
  void poison();

  // [T] each: of the step, and of the rows that go on after the last owner.
  int *ids, *per_layer_ids, *selected;
  TokenPlace *places, *selected_places;
  // [T, N, H]; two that take turns, since a layer reads one and writes the other.
  float *streams, *spare_streams;
  float *per_layer, *spare_per_layer;                          ///< [T, L·E]
  float *normed, *spare_normed;                                ///< [T, H]
  float *attention, *joined, *activated, *projected, *laurel;  ///< [T, H]
  float *raw_queries, *queries, *attended;                     ///< [T, nH·D]
  float *raw_keys, *raw_values, *keys, *values;                ///< [T, nK·D]
  float *gate, *up;                                            ///< [T, I]
  float* low_rank;                                             ///< [T, R]
  float *modalities, *coefs;                                   ///< [T, N], [T, N·N]
  float* per_layer_gate;                                       ///< [T, E]
  float *router, *expert_weights;                              ///< [T, X], [T, k]
  int* chosen;                                                 ///< [T, k]
  float *expert_gate_up, *expert_gate, *expert_out;  ///< [T·k, 2·Im], [T·k, Im], [T·k, H]
  float* logits;                                     ///< [T, V]
  int* greedy;                                       ///< [T]
  float *attention_pieces, *projection_pieces;       ///< of the split forms
  std::size_t attention_floats = 0, projection_floats = 0;

 private:
  Workspace() = default;
  void plan_parts(const ModelConfig& config, const std::vector<LayerPlan>& plan,
                  const WorkspaceSizes& sizes);
  template <class T>
  void part(T*& pointer, const char* name, std::size_t count);

  std::vector<Part> parts_;
  std::vector<std::pair<void**, std::size_t>> places_of_pointers_;
  dv::DeviceArray<unsigned char> memory_;
};

}  // namespace kvconform::cuda::inline DV_MACHINE
