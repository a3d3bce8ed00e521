// The one list of a model's tensors: names and shapes (model-spec: "Tensors") and where each is
// kept in `Weights`. Binding, writing and drawing random weights walk it; a tensor that is missing
// here exists nowhere.
#pragma once

#include <string>
#include <vector>

#include "reference/checkpoint.h"

namespace kvconform {

struct ModelSlot {
  std::string name;  ///< without prefix
  std::vector<std::int64_t> shape;
  TensorView Weights::*view;
};

struct LayerSlot {
  std::string name;  ///< behind "layers.I."
  std::vector<std::int64_t> shape;
  TensorView LayerWeights::*view;
};

/// Tensors outside the layers, but for AltUp's numbered projections.
std::vector<ModelSlot> model_slots(const ModelConfig& config);

/// Tensors that `layer` computes with. Not those of a consumer's dead projections.
std::vector<LayerSlot> layer_slots(const ModelConfig& config, const LayerPlan& layer);

/// Names behind "layers.I." that files of consumers may carry and nothing reads.
bool is_dead_name(const std::string& name, const LayerPlan& layer);

std::string layer_prefix(int layer);                   ///< "layers.3."
std::string altup_projection_name(int index);          ///< "altup_projections.0.weight"
std::string altup_unembed_projection_name(int index);  ///< "altup_unembed_projections.0.weight"

}  // namespace kvconform
