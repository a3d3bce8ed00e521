// What a property says of a subject on one case, and the words for it (the command line's, cli.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvconform {

enum class VerdictKind {
  conforms,
  differs,          ///< the property is violated
  refused,          ///< `unsupported` or `invalid` where that is right
  broken,           ///< crash, hang, protocol violation
  flaky,            ///< the same case gave another result
  ill_conditioned,  ///< the case itself does not decide (routing or argmax flips within the noise)
  not_applicable,   ///< a capability is missing, by name
  known,            ///< listed in the ledger of known failures
  unexpectedly_conforms,  ///< listed, yet fine: a failure
  nothing_compared  ///< of a property that got no case at all (a shard without cases, no time)
};
const char* to_string(VerdictKind kind);

/// The first place where two computations part. −1 or empty: not known.
struct Difference {
  int layer = -1;
  std::string part;  ///< embedding, attention, output, final_norm, logits
  int row = -1;      ///< batch row
  int token = -1;    ///< position within the row
  int dimension = -1;
  int head = -1;
  int call = -1;  ///< index of the call in the case
  double expected = 0, seen = 0;
  double budget_used = 0;  ///< 1 = all of it; bit comparisons: infinity where bits differ
};

/// How far two computations are from each other, array by array in order of computation, position
/// by position of one row: largest deviation over largest expected value. NaN where either is none.
struct DeviationMap {
  int row = 0;   ///< batch row
  int call = 0;  ///< index of the call in the case
  int first_token = 0;
  std::vector<std::string> arrays;             ///< "embedding", "layer 1 attention", …
  std::vector<std::vector<double>> deviation;  ///< [array][position]
};

struct Verdict {
  VerdictKind kind = VerdictKind::conforms;
  std::string message;  ///< one line for people, alike for cases that are alike
  std::optional<Difference> first_difference;
  double budget_used = 0;  ///< the largest share over the case
  std::string cause;       ///< likely cause, where the pattern is known
  /// Of two ways that should be equal: which agrees with the implementation held against.
  std::string departs = {};
  DeviationMap deviations = {};  ///< of a located difference; empty where nothing was traced
  /// Configs of the models that the property made of the case's: the difference lies in one of
  /// them. Empty: in the case's own.
  std::vector<std::string> models = {};
  /// Where a subject refused or broke: "call 3, rewind of rows of [9, 7] tokens to [8, 7]".
  std::string request = {};
};

/// The message, and the request it is about.
std::string in_words(const Verdict& verdict);

nlohmann::json to_json(const Difference& difference);
Difference difference_from_json(const nlohmann::json& value);

}  // namespace kvconform
