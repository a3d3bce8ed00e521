// Goldens: logits that must not change, bit for bit, on any machine, with any compiler. Each kind
// of numerics has logits of its own.
//
// `verify` computes a recipe and compares; it never writes. `record` writes what it computed as
// pending, beside the approved files; `approve` makes that the truth. Nothing else changes an
// approved file, and nothing approves by itself. What computes is handed in as Numerics, so that
// any subject can be verified. Errors: KV30xx (golden/README.md).
//
//   for (const GoldenResult& result : verify_all(golden_numerics())) print(result.message);
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "golden/approved_file.h"
#include "golden/computation.h"
#include "golden/explanation.h"
#include "golden/recipes.h"

namespace kvconform {

enum class GoldenStatus {
  same,            ///< every bit
  differs,         ///< another number, or another number of them
  recipe_changed,  ///< the recipe is not the one that was approved: record it again
  not_approved,    ///< nothing approved yet, for this kind of numerics
  no_recipe,       ///< approved, but no recipe says how to compute it
  failed,          ///< the subject refused or broke
  not_applicable   ///< the subject does not offer what the recipe asks for
};
const char* to_string(GoldenStatus status);

struct GoldenResult {
  std::string name, kind;
  GoldenStatus status = GoldenStatus::failed;
  std::string sha256, approved_sha256;
  std::optional<GoldenDifference> difference;  ///< where approved logits are stored
  GoldenCause cause = GoldenCause::none;       ///< of a difference
  std::string message;                         ///< one line, or several for a difference
};

/// May a run that ends with this status pass?
bool passes(GoldenStatus status);

GoldenResult verify(const Recipe& recipe, const Numerics& numerics);

/// All recipes whose name contains `filter`, by each kind of numerics, and approved files that no
/// recipe names. A subject that breaks on one is reported, the others still run.
std::vector<GoldenResult> verify_all(const std::vector<Numerics>& numerics,
                                     const std::string& filter = "");

/// A line for each kind of numerics on all differences together: how many, and the cause that
/// explains them best. Empty without differences.
std::string summary_of_causes(const std::vector<GoldenResult>& results);

/// Computes the recipe, and writes approved/NAME.pending.* unless all that an approved file keeps
/// is the same. `commit` is recorded as where the numbers come from. Throws KV3009 if a logit is
/// not finite, KV3012 if tracing changes a bit. Returns a result for each kind of numerics.
std::vector<GoldenResult> record(const Recipe& recipe, const std::vector<Numerics>& numerics,
                                 const std::string& commit);

/// What approving would change.
struct PendingGolden {
  std::string name;
  bool is_new = false;  ///< nothing was approved before
  struct Change {
    std::string kind, sha256, approved_sha256;
    std::optional<GoldenDifference> difference;
    std::optional<Departure> departure;
  };
  std::vector<Change> changes;  ///< one for each kind of numerics
  std::string message;
};
std::vector<PendingGolden> list_pending();
PendingGolden find_pending(const std::string& name);  ///< Error KV3008 if there is none

/// Makes the pending result of `name` the approved one; `reason` is kept with it.
void approve(const std::string& name, const std::string& reason);

/// Files in approved/ that no recipe asks for, and pending ones; `prune` removes and returns them.
std::vector<std::filesystem::path> list_prunable();
std::vector<std::filesystem::path> prune();

}  // namespace kvconform
