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
    return list;
  }();
  return properties;
}

}  // namespace kvconform
