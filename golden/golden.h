// Goldens: logits that must not change, bit for bit, on any machine, with any compiler.
//
// `verify` computes a recipe and compares; it never writes. `record` writes what it computed as
// pending, beside the approved files; `approve` makes that the truth. Nothing else changes an
// approved file, and nothing approves by itself. What computes is handed in as a GoldenRunner, so
// that any subject can be verified. Errors: KV30xx (golden/README.md).
//
//   for (const GoldenResult& result : verify_all(runner_factory)) fmt::print("{}\n",
//   result.message);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "golden/recipes.h"
#include "reference/trace.h"

namespace kvconform {

/// One model, one session at a time.
class GoldenRunner {
 public:
  virtual ~GoldenRunner() = default;
  virtual Logits score(const std::vector<int>& tokens) = 0;
  virtual void open(int capacity) = 0;  ///< a fresh session; the one before it is closed
  virtual Logits extend(const std::vector<int>& tokens) = 0;
  virtual void rewind(int length) = 0;
};

using RunnerFactory =
    std::function<std::unique_ptr<GoldenRunner>(std::shared_ptr<const Checkpoint>)>;

/// The first place where two results of a recipe part, and how far apart they are in all.
struct GoldenDifference {
  int call = 0;    ///< index in the recipe, calls without logits included
  int row = 0;     ///< position within the call
  int column = 0;  ///< token id
  double approved = 0.0, computed = 0.0;
  int calls = 0, rows = 0;  ///< that differ
  double largest = 0.0;     ///< |computed − approved|, infinite for NaN
};

enum class GoldenStatus {
  same,            ///< every bit
  differs,         ///< another number, or another number of them
  recipe_changed,  ///< the recipe is not the one that was approved: record it again
  not_approved,    ///< no approved file yet
  failed           ///< the runner refused or broke
};
const char* to_string(GoldenStatus status);

struct GoldenResult {
  std::string name;
  GoldenStatus status = GoldenStatus::failed;
  std::string sha256, approved_sha256;
  std::optional<GoldenDifference> difference;  ///< where approved logits are stored
  std::string message;                         ///< one line, or a few for a difference
};

GoldenResult verify(const Recipe& recipe, const RunnerFactory& factory);

/// Those whose name contains `filter`. A runner that breaks on one is reported, the others still
/// run.
std::vector<GoldenResult> verify_all(const RunnerFactory& factory, const std::string& filter = "");

/// Computes the recipe and compares, as `verify` does; writes approved/NAME.pending.* unless every
/// bit is the same. `commit` is recorded as where the numbers come from. Throws KV3009 if a logit
/// is not finite.
GoldenResult record(const Recipe& recipe, const RunnerFactory& factory, const std::string& commit);

/// What approving would change.
struct PendingGolden {
  std::string name;
  bool is_new = false;  ///< nothing was approved before
  std::string sha256, approved_sha256;
  std::optional<GoldenDifference> difference;
  std::string message;
};
std::vector<PendingGolden> list_pending();
PendingGolden find_pending(const std::string& name);  ///< Error KV3008 if there is none

/// Makes the pending result of `name` the approved one.
void approve(const std::string& name);

/// Files in approved/ that no recipe asks for, and pending ones; `prune` removes and returns them.
std::vector<std::filesystem::path> list_prunable();
std::vector<std::filesystem::path> prune();

/// Writes the recipe as a checkpoint folder with case.json (calls) and expected.safetensors
/// (`I.logits` for call I): the golden in a form that other programs can read.
void export_golden(const Recipe& recipe, const RunnerFactory& factory,
                   const std::filesystem::path& folder);

}  // namespace kvconform
