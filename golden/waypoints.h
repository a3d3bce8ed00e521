// Waypoints: hashes and facts along the way from a recipe to its logits. They are kept with an
// approved golden, so that a change of its logits can be traced to where it began: other tokens
// drawn, a configuration read differently, other weights, or arithmetic from a layer on.
#pragma once

#include <string>
#include <vector>

#include "golden/recipes.h"
#include "reference/checkpoint.h"
#include "reference/trace.h"

namespace kvconform {

/// What a recipe is before any arithmetic.
struct Waypoints {
  std::string calls;   ///< JSON list, tokens included
  std::string config;  ///< JSON object: the configuration as it takes effect, layer by layer
  std::string weights_sha256;
  std::vector<std::string> tensor_hashes;  ///< short, in the order of the tensors' names
  std::vector<std::string> tensor_names;   ///< not kept with a golden: the weights have them
};

Waypoints waypoints_of(const Recipe& recipe, const Checkpoint& checkpoint);

/// Short hashes of the arrays that a subject traces, call by call.
struct StageHashes {
  std::vector<std::string> stages;              ///< names, in the order of computation
  std::vector<std::vector<std::string>> calls;  ///< one list a call, empty without logits

  void add(const Trace& trace);
};

/// Where two computations part first.
struct Departure {
  int call = 0;
  std::string stage;  ///< e.g. "layer.1.attention"
};

/// 8 hexadecimal digits of a SHA-256: enough to tell where two computations part.
std::string short_hash(const std::string& sha256);

}  // namespace kvconform
