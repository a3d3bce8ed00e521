// A model taken apart, so that a property can change it: the config as JSON, tensors as numbers by
// their names without prefix.
//
//   ModelDraft draft = ModelDraft::of(*source.checkpoint());
//   draft.config()["sliding_window"] = 4;
//   draft.change("norm.weight", [](std::int64_t, float x) { return 2 * x; });
//   std::unique_ptr<ModelSource> changed = draft.source();
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "properties/model_variant.h"

namespace kvconform {

/// Numbers of a tensor, widened; exact for every format.
struct Numbers {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::int64_t width() const;  ///< of a row: all axes but the first
  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
};

class ModelDraft {
 public:
  static ModelDraft of(const Checkpoint& checkpoint);
  /// Weights are a function of the recipe, the name and the shape: where a config keeps a tensor's
  /// shape, the tensor is the same as in the original.
  static ModelDraft drawn(nlohmann::json config, const WeightsRecipe& recipe);

  /// The text config, also where it is part of a larger one.
  nlohmann::json& config();
  const nlohmann::json& config() const;
  /// Of the config as it is now.
  ModelConfig parsed() const;
  std::vector<LayerPlan> plan() const;

  bool has(const std::string& name) const;
  Numbers get(const std::string& name) const;
  void set(const std::string& name, const Numbers& numbers);  ///< stored as float32
  void erase(const std::string& name);
  /// Does nothing where there is no such tensor.
  void change(const std::string& name,
              const std::function<float(std::int64_t index, float value)>& f);
  void scale(const std::string& name, float factor);
  /// Row i becomes the old row `sources[i]`. Does nothing where there is no such tensor.
  void take_rows(const std::string& name, const std::vector<int>& sources);
  void take_columns(const std::string& name, const std::vector<int>& sources);

  TensorTable& tensors() { return tensors_; }
  const TensorTable& tensors() const { return tensors_; }
  std::string stored_name(const std::string& name) const;
  std::unique_ptr<ModelSource> source() const;

 private:
  nlohmann::json config_;
  TensorTable tensors_;
  std::string prefix_;
};

/// "layers.3.self_attn.q_proj.weight"
std::string layer_tensor(int layer, const char* name);

}  // namespace kvconform
