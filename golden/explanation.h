// Why a golden's logits changed, as far as the waypoints tell: which of tokens, configuration,
// weights and arithmetic is no longer what was approved, where the arithmetic parts first, what
// depends on it and how far the logits are. Text for people who did not expect the change.
#pragma once

#include <optional>
#include <string>

#include "golden/approved_file.h"
#include "golden/computation.h"
#include "golden/waypoints.h"

namespace kvconform {

enum class GoldenCause {
  none,           ///< nothing differs, or nothing to judge by
  tokens,         ///< the recipe draws other tokens
  configuration,  ///< the same config.json is understood differently
  weights,        ///< the generator draws other weights, or a stored checkpoint is another
  formula,        ///< another formula or constant
  position,       ///< a formula that depends on the position: rotary embedding, mask, cache
  rounding,       ///< the same numbers up to rounding: order of a sum, elementary function
  approved_wrong  ///< the witness sides with what is computed now
};
const char* to_string(GoldenCause cause);   ///< for people
const char* short_name(GoldenCause cause);  ///< a word or two

/// The first place where two results of a recipe part, and how far apart they are in all.
struct GoldenDifference {
  LogitsRow row;   ///< the first that differs
  int column = 0;  ///< token id
  double approved = 0.0, computed = 0.0;
  int calls = 0, rows = 0;              ///< that differ
  double largest = 0.0;                 ///< |computed − approved|, infinite for NaN
  bool first_positions_differ = false;  ///< some row at position 0 does
  bool first_positions_seen = false;    ///< there are such rows
  bool uncached_differ = false;         ///< some row of a `score` does
  bool uncached_seen = false;
};

/// Nothing if every bit is the same. Needs results of the same calls with the same shapes.
std::optional<GoldenDifference> compare_logits(const Recipe& recipe, const CallLogits& approved,
                                               const CallLogits& computed);
bool same_shapes(const CallLogits& a, const CallLogits& b);

/// The first call whose traced arrays differ, and the first of them.
std::optional<Departure> first_departure(const StageHashes& approved, const StageHashes& computed);

struct Explanation {
  GoldenCause cause = GoldenCause::none;
  std::string text;  ///< lines, each indented and without a newline at the end
};

/// `computed` was traced. `now`: the waypoints of the recipe as it is made today.
Explanation explain(const Recipe& recipe, const Checkpoint& checkpoint, const Waypoints& now,
                    const ApprovedGolden& approved, const ApprovedNumerics& numerics,
                    const Computation& computed);

/// "call 3 (extend of session 0), row 0, position 12".
std::string in_words(const Recipe& recipe, const LogitsRow& row);
/// "call 3 (extend of session 0), layer 1 (full_attention, keys of layer 1, rotary base 1e+06):
/// attention (norms, …)"; `layer` may be null.
std::string in_words(const Recipe& recipe, const LayerPlan* layer, const Departure& departure);
std::string in_words(const Recipe& recipe, const GoldenDifference& difference);

}  // namespace kvconform
