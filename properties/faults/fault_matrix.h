// Faults × properties: which property catches which fault, after how many cases, how small the case
// becomes, and whether the first difference is named where the fault acts.
//
//   MatrixOptions options;
//   options.faults = all_faults();
//   for (const FaultResult& result : run_fault_matrix(options)) …
//
// The property that a fault is meant for is asked first. Faults are spread over threads; what is
// found depends on nothing but seed and size.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "properties/faults/faults.h"
#include "properties/property.h"

namespace kvconform {

/// One property that caught a fault, with the first case that did. Races are caught by the race
/// checker (kernel_trial.h) while a property's cases run; `property` then names the checker.
struct Catch {
  std::string property;
  std::string asked;       ///< the property whose cases they were
  std::int64_t cases = 0;  ///< of this property, the catching one included
  VerdictKind kind = VerdictKind::differs;
  std::optional<Difference> place;                    ///< where the computations part first
  bool pinned = false;                                ///< … and whether the fault acts there
  int layers = 0, prompt = 0, window = 0, calls = 0;  ///< of the case; the shrunk one where asked
  std::string message;
};

struct FaultResult {
  Fault fault;
  std::vector<Catch> catches;  ///< the first one; in a whole matrix all, in the order asked
  std::int64_t cases = 0;      ///< until the first catch, over all properties asked
  double seconds = 0;
  bool judged = true;  ///< false: interrupted before anything caught it

  bool caught() const { return !catches.empty(); }
  /// A first difference can be asked for: the fault has a place, and the subject did not break.
  bool has_place() const;
};

struct MatrixOptions {
  std::vector<Fault> faults;
  CaseSize size = CaseSize::standard;
  std::int64_t cases = 0;  ///< for each pair; 0: what size and the fault's property say
  std::uint64_t seed = 1;
  int jobs = 0;               ///< threads; 0: as many as the machine has cores
  bool whole = false;         ///< all properties, not the first that catches
  double shrink_seconds = 0;  ///< for each catch; 0: the case stays as it was found
  std::function<void(const FaultResult&)> on_result;  ///< in order of the faults, one thread a time
  const std::atomic<bool>* stop = nullptr;
};

std::vector<FaultResult> run_fault_matrix(const MatrixOptions& options);

/// What all of them come to.
struct MatrixTotals {
  int faults = 0, caught = 0;
  int caught_as_expected = 0;  ///< by the property or checker named for it
  int races = 0;               ///< caught by the race checker
  std::int64_t median_cases = 0, most_cases = 0;
  int with_place = 0, pinned = 0;
  int median_layers = 0, median_prompt_past_window = 0;  ///< of the cases
  std::vector<std::string> deep;  ///< faults that only the size deep must catch

  double pinned_percent() const { return with_place > 0 ? 100.0 * pinned / with_place : 100; }

  /// What is asked of all of them: the share that is pinned, and medians of shrunk cases.
  static constexpr int kPinnedPercent = 90, kLayers = 4, kPromptPastWindow = 4;
};

MatrixTotals totals_of(const std::vector<FaultResult>& results);

}  // namespace kvconform
