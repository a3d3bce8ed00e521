// Planted faults: the reference, or a kernel of the CUDA engine, with one thing wrong, each taken
// from real bug reports. They prove that the properties can fail: `fault:NAME` is a subject like
// any other, and a fault that no property catches is a hole in the harness.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "properties/subject.h"
#include "properties/verdict.h"

namespace kvconform {

/// The place in the model where a fault shows first: a part of the trace, and which layers have it.
struct FaultSite {
  std::string part;  ///< attention, output, embedding, per_layer_inputs, final_norm, logits, cache;
                     ///< empty: the fault is none of arithmetic (sessions, refusals, reports)
  bool (*acts_on)(const LayerPlan& layer) = nullptr;  ///< for parts of a layer
};

struct Fault {
  std::string name;         ///< the subject is `fault:` + name
  std::string bugs;         ///< reports it is modelled on, e.g. "mlx-lm #1674"
  std::string description;  ///< one line: what is wrong
  std::string fault_class;  ///< e.g. "C01 sharing tied to the cache object"
  std::string caught_by;    ///< the property that must catch it, or kRaceChecker (kernel_trial.h)
  FaultSite site;
  bool deep = false;  ///< needs positions or sizes that only the size deep has
};

const std::vector<Fault>& all_faults();

/// The reference or the CUDA engine, in float32, with the fault `name`. Error KV2103 where there is
/// none.
std::unique_ptr<Subject> make_faulty_subject(const std::string& name);

/// Is a difference found where the fault acts? Nothing to say for faults without a place.
bool is_at(const FaultSite& site, const Difference& difference, const ModelConfig& config);

}  // namespace kvconform
