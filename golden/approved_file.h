// An approved (or pending) golden on disk: NAME.json for people and version control, and, where
// they are small, NAME.safetensors with all logits, so that a mismatch can say where and how far.
// Reading checks that the two belong together. Knows files, not models; golden.h has the workflow.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "golden/recipes.h"
#include "reference/trace.h"

namespace kvconform {

/// Logits of every call of a recipe; empty for calls that yield none.
using CallLogits = std::vector<Logits>;

std::string hash_of(const CallLogits& calls);

struct Provenance {
  std::string compiler, processor, date, commit;
};
Provenance provenance_here(const std::string& commit);

struct ApprovedGolden {
  std::string name, fingerprint, sha256;
  std::vector<std::string> call_hashes;  ///< one a call, "" for calls without logits
  std::optional<CallLogits> logits;      ///< absent where they are too large to keep
};

enum class Stage { approved, pending };

std::filesystem::path golden_json(const std::string& name, Stage stage);
std::filesystem::path golden_logits(const std::string& name, Stage stage);

/// Nothing if there is no such file; Error KV3006 if it is damaged.
std::optional<ApprovedGolden> read_golden(const std::string& name, Stage stage);
void write_pending(const Recipe& recipe, const CallLogits& calls, const Provenance& provenance);
void promote_pending(const std::string& name);
void remove_pending(const std::string& name);

/// Writes logits as float32 arrays `I.logits`.
void write_call_logits(const std::filesystem::path& file, const CallLogits& calls);

}  // namespace kvconform
