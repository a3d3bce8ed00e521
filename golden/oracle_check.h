// Model and witness against what other software computed: the verdict on golden/oracle.
//
// Every prompt of every case is computed by the double model, the witness and the float model and
// held against the stored float64 logits. Double computations of the same formulas may differ by
// rounding alone; the float model is measured by what float32 costs transformers on that very case.
// A case that is put into golden/oracle is found by being there. Judges logits only; intermediate
// arrays and cached paths are compared by the tests of model and witness.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "golden/oracle_cases.h"
#include "properties/subject.h"

namespace kvconform {

/// One computation held against one case.
struct OracleResult {
  std::string name, computed_by;  ///< "gemma3n-base", "witness"
  bool agrees = false;
  int prompts = 0;
  double budget_used = 0;  ///< 1 = all of it
  std::string message;     ///< where it differs; empty if it agrees
};

/// Results of double model, witness and float model.
std::vector<OracleResult> verify_oracle_case(const OracleCase& oracle);

/// A subject that computes in float32, scored prompt by prompt; what it refuses it does not agree
/// with.
OracleResult verify_oracle_case(const OracleCase& oracle, Subject& subject);

/// Those of all cases. `stop` ends it early, between cases.
std::vector<OracleResult> verify_oracle(const std::atomic<bool>* stop = nullptr);

}  // namespace kvconform
