// What each property is worth against the planted faults: how many it catches, how many of them
// alone, and how many sooner than every other property. One with neither must have a reason to stay
// (README.md, "What each property is for").
#pragma once

#include <string>
#include <vector>

#include "properties/faults/fault_matrix.h"

namespace kvconform {

struct PropertyShare {
  std::string property;
  int caught = 0;
  std::vector<std::string> alone;  ///< faults that no other property caught
  std::vector<std::string> first;  ///< faults caught after fewer cases than by any other property
  bool earns_its_place() const { return !alone.empty() || !first.empty(); }
};

/// One a property, in the order in which `check` runs them. Of a whole matrix: otherwise only the
/// property that a fault is meant for has been asked.
std::vector<PropertyShare> shares_of(const std::vector<FaultResult>& results);

/// A table, with an example of each kind.
std::string shares_markdown(const std::vector<PropertyShare>& shares);

}  // namespace kvconform
