// Makers of the properties, one a file of this folder. To add one: a file, a maker here, a line in
// all_properties.cpp, a row in the README's table, and a planted fault that it catches.
#pragma once

#include <memory>

#include "properties/property.h"

namespace kvconform {

std::unique_ptr<Property> cache_independence();
std::unique_ptr<Property> prefill_equals_decode();
std::unique_ptr<Property> chunking();
std::unique_ptr<Property> dead_tensors();
std::unique_ptr<Property> window_reach();
std::unique_ptr<Property> agreement();
std::unique_ptr<Property> causality();
std::unique_ptr<Property> global_reach();
std::unique_ptr<Property> knob_sensitivity();
std::unique_ptr<Property> equal_configurations();
std::unique_ptr<Property> load_tolerance();
std::unique_ptr<Property> topology();
std::unique_ptr<Property> finite();
std::unique_ptr<Property> rotary_convention();
std::unique_ptr<Property> batch_rows();
std::unique_ptr<Property> rollback();
std::unique_ptr<Property> fork_and_reorder();
std::unique_ptr<Property> save_and_restore();
std::unique_ptr<Property> history_independence();
std::unique_ptr<Property> determinism();
std::unique_ptr<Property> greedy_speculation();
std::unique_ptr<Property> memory_accounting();
std::unique_ptr<Property> errors_not_silence();
std::unique_ptr<Property> far_positions();

}  // namespace kvconform
