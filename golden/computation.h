// What a subject computes of a recipe: the logits of every call and, where they are asked for, the
// hashes of what it traced on the way.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "golden/recipes.h"
#include "golden/waypoints.h"
#include "properties/subject.h"
#include "reference/trace.h"

namespace kvconform {

/// Logits of every call of a recipe; empty for calls that yield none.
using CallLogits = std::vector<Logits>;

/// SHA-256 over the logits of all calls, one after the other: a golden's identity.
std::string hash_of(const CallLogits& calls);

/// A kind of arithmetic that has hashes of its own, and who computes in it.
struct Numerics {
  std::string kind;  ///< "reference-float32", "cuda-float32"
  std::function<std::unique_ptr<Subject>()> make;
};

struct Computation {
  CallLogits logits;
  StageHashes stages;    ///< empty unless traced
  std::string computer;  ///< name and version of the subject
};

/// Throws whatever the subject throws.
Computation compute(const Recipe& recipe, const ModelSource& model, const Numerics& numerics,
                    bool trace);

/// One row of logits and where it stands.
struct LogitsRow {
  int call = 0, index = 0;  ///< of the row within the call's logits
  int batch_row = 0, position = 0;
  bool cached = false;      ///< behind a session, not score
  std::vector<int> tokens;  ///< of the batch row, up to and with `position`
};

/// All rows of logits that a recipe yields, in order.
std::vector<LogitsRow> logits_rows(const Recipe& recipe);

}  // namespace kvconform
