// An approved (or pending) golden on disk: NAME.json for people and version control, and, where
// they are small, NAME.safetensors with all logits, so that a mismatch can say where and how far.
// Reading checks that the two belong together. Knows files, not models; golden.h has the workflow.
// Errors: KV3006 (damaged), KV3010 (cannot be written).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "golden/computation.h"
#include "golden/recipes.h"
#include "golden/waypoints.h"

namespace kvconform {

/// Where the numbers come from.
struct Provenance {
  std::string computer;  ///< the subject
  std::string compiler, processor, date, commit;
  std::string reason;  ///< why they were approved; empty: nobody said
};
Provenance provenance_here(const std::string& computer, const std::string& commit);

/// What one kind of numerics computes.
struct ApprovedNumerics {
  std::string kind, sha256;
  std::vector<std::string> call_hashes;  ///< one a call, "" for calls without logits
  StageHashes stages;
  Provenance provenance;
  bool stored = false;               ///< the logits are small enough to be kept in a file
  std::optional<CallLogits> logits;  ///< as computed, or as read where they are stored
};

struct ApprovedGolden {
  std::string name, about, fingerprint;
  Waypoints way;
  std::vector<ApprovedNumerics> numerics;

  const ApprovedNumerics* find(const std::string& kind) const;  ///< null: this kind has none
};

ApprovedNumerics approved_numerics(const std::string& kind, const Computation& computation,
                                   const Provenance& provenance);

enum class Stage { approved, pending };

std::filesystem::path golden_json(const std::string& name, Stage stage);
std::filesystem::path golden_logits(const std::string& name, Stage stage);

/// Nothing if there is no such file; Error KV3006 if it is damaged.
std::optional<ApprovedGolden> read_golden(const std::string& name, Stage stage);
void write_golden(const ApprovedGolden& golden, Stage stage);
/// Makes the pending golden the approved one. `reason` is kept where numbers are new.
void promote_golden(const std::string& name, const std::string& reason);
void remove_golden(const std::string& name, Stage stage);

/// Writes `file` whole or not at all.
void write_golden_text(const std::filesystem::path& file, const std::string& text);

}  // namespace kvconform
