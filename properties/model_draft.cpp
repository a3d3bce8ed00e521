// Taking models apart and putting them together.
#include "properties/model_draft.h"

#include <fmt/format.h>

#include "reference/random_weights.h"

namespace kvconform {

std::int64_t Numbers::width() const {
  std::int64_t width = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) width *= shape[i];
  return width;
}

ModelDraft ModelDraft::of(const Checkpoint& checkpoint) {
  ModelDraft draft;
  draft.config_ = checkpoint.config_json();
  draft.tensors_ = checkpoint.tensors();
  draft.prefix_ = checkpoint.report().prefix;
  return draft;
}

ModelDraft ModelDraft::drawn(nlohmann::json config, const WeightsRecipe& recipe) {
  ModelDraft draft;
  draft.config_ = std::move(config);
  draft.tensors_ = random_weights(draft.config_, recipe);
  draft.prefix_ = "model.";
  return draft;
}

nlohmann::json& ModelDraft::config() {
  const auto inner = config_.find("text_config");
  return inner == config_.end() ? config_ : *inner;
}

const nlohmann::json& ModelDraft::config() const {
  const auto inner = config_.find("text_config");
  return inner == config_.end() ? config_ : *inner;
}

ModelConfig ModelDraft::parsed() const {
  return parse_model_config(config_);
}

std::vector<LayerPlan> ModelDraft::plan() const {
  return plan_layers(parsed());
}

std::string ModelDraft::stored_name(const std::string& name) const {
  const bool outside = name == "lm_head.weight" && tensors_.tensors.count(name) > 0;
  return outside ? name : prefix_ + name;
}

bool ModelDraft::has(const std::string& name) const {
  return tensors_.tensors.count(stored_name(name)) > 0;
}

Numbers ModelDraft::get(const std::string& name) const {
  const TensorView& view = tensors_.tensors.at(stored_name(name));
  Numbers numbers{view.shape, std::vector<float>(static_cast<std::size_t>(view.count()))};
  for (std::int64_t i = 0; i < view.count(); ++i) numbers.values[i] = element(view, i);
  return numbers;
}

void ModelDraft::set(const std::string& name, const Numbers& numbers) {
  const std::string stored = stored_name(name);
  tensors_.tensors.erase(stored);
  auto* data = reinterpret_cast<float*>(tensors_.add(stored, Dtype::f32, numbers.shape));
  std::copy(numbers.values.begin(), numbers.values.end(), data);
}

void ModelDraft::erase(const std::string& name) {
  tensors_.tensors.erase(stored_name(name));
}

void ModelDraft::change(const std::string& name,
                        const std::function<float(std::int64_t, float)>& f) {
  if (!has(name)) return;
  Numbers numbers = get(name);
  for (std::size_t i = 0; i < numbers.values.size(); ++i) {
    numbers.values[i] = f(static_cast<std::int64_t>(i), numbers.values[i]);
  }
  set(name, numbers);
}

void ModelDraft::scale(const std::string& name, float factor) {
  change(name, [factor](std::int64_t, float value) { return factor * value; });
}

void ModelDraft::take_rows(const std::string& name, const std::vector<int>& sources) {
  if (!has(name)) return;
  const Numbers old = get(name);
  const std::int64_t width = old.width();
  Numbers taken{old.shape, {}};
  taken.shape[0] = static_cast<std::int64_t>(sources.size());
  for (int source : sources) {
    const auto begin = old.values.begin() + source * width;
    taken.values.insert(taken.values.end(), begin, begin + width);
  }
  set(name, taken);
}

void ModelDraft::take_columns(const std::string& name, const std::vector<int>& sources) {
  if (!has(name)) return;
  const Numbers old = get(name);
  Numbers taken{{old.rows(), static_cast<std::int64_t>(sources.size())}, {}};
  for (std::int64_t r = 0; r < old.rows(); ++r) {
    for (int source : sources) taken.values.push_back(old.values[r * old.width() + source]);
  }
  set(name, taken);
}

std::unique_ptr<ModelSource> ModelDraft::source() const {
  return model_in_memory(config_, tensors_);
}

std::string layer_tensor(int layer, const char* name) {
  return fmt::format("layers.{}.{}", layer, name);
}

}  // namespace kvconform
