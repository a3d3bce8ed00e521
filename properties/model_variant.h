// The model of a case with something about its weights changed, for properties about weights.
#pragma once

#include <memory>

#include "properties/subject.h"
#include "reference/random_weights.h"

namespace kvconform {

/// A config and tensors as they are, checked.
std::unique_ptr<ModelSource> model_in_memory(nlohmann::json config, TensorTable tensors);

/// A config that every subject must refuse, with tensors enough to compute something all the same.
/// Its checkpoint() throws what is wrong, so that subjects in this process refuse it.
std::unique_ptr<ModelSource> model_to_refuse(nlohmann::json config, TensorTable tensors);

/// The same model with the dead projections of its consumers absent, random or NaN.
std::unique_ptr<ModelSource> with_dead_tensors(const ModelSource& source, DeadTensors dead);

/// The same model with the key and value projections of one owner negated.
std::unique_ptr<ModelSource> with_negated_keys(const ModelSource& source, int layer);

}  // namespace kvconform
