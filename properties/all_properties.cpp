// The list of properties, in the order in which `check` runs them.
#include "properties/invariants/invariants.h"

namespace kvconform {

const std::vector<std::unique_ptr<Property>>& all_properties() {
  static const auto properties = [] {
    std::vector<std::unique_ptr<Property>> list;
    list.push_back(cache_independence());
    list.push_back(prefill_equals_decode());
    list.push_back(chunking());
    list.push_back(dead_tensors());
    list.push_back(window_reach());
    list.push_back(agreement());
    list.push_back(causality());
    list.push_back(global_reach());
    list.push_back(knob_sensitivity());
    list.push_back(equal_configurations());
    list.push_back(load_tolerance());
    list.push_back(topology());
    list.push_back(finite());
    list.push_back(rotary_convention());
    list.push_back(batch_rows());
    list.push_back(rollback());
    list.push_back(fork_and_reorder());
    list.push_back(save_and_restore());
    list.push_back(history_independence());
    list.push_back(determinism());
    list.push_back(greedy_speculation());
    list.push_back(memory_accounting());
    list.push_back(errors_not_silence());
    list.push_back(far_positions());
    return list;
  }();
  return properties;
}

}  // namespace kvconform
