// What a row of the tables of faults is made of. The tables lie in *_faults.cpp, by class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/kernels/planted_faults.h"
#include "properties/faults/fault_kind.h"
#include "properties/faults/faults.h"
#include "properties/faults/wrapped_subject.h"

namespace kvconform {

/// A fault of the model or its cache has a kind, one of the whole subject a wrap; one of the model
/// in an engine of few capabilities has both. One of the CUDA engine has a kernel.
struct Planted {
  FaultKind kind = FaultKind::none;
  Fault fault;
  Wrap wrap = nullptr;
  cuda::PlantedFault kernel = cuda::PlantedFault::none;
};

std::vector<Planted> sharing_faults();     ///< C01 to C04
std::vector<Planted> window_faults();      ///< C05 to C08
std::vector<Planted> cache_faults();       ///< C09, C10, C11, C20, C22
std::vector<Planted> arithmetic_faults();  ///< C12, C14, C21
std::vector<Planted> number_faults();      ///< C15, C16, C18, C19
std::vector<Planted> refusal_faults();     ///< silence where an error is due, and load
std::vector<Planted> kernel_faults();      ///< of the CUDA engine; none in a build with sanitizers

/// The CUDA engine on emulated threads with the entry's kernel.
std::unique_ptr<Subject> faulty_engine(const std::string& name, const Planted& entry);

namespace site {

inline bool any(const LayerPlan&) {
  return true;
}
inline bool above_first(const LayerPlan& l) {
  return l.layer > 0;
}
inline bool consumer(const LayerPlan& l) {
  return !l.owns_keys();
}
inline bool owner(const LayerPlan& l) {
  return l.owns_keys();
}
inline bool shares(const LayerPlan& l) {
  return l.role != Role::independent;
}
inline bool sliding(const LayerPlan& l) {
  return l.window > 0;
}
inline bool full(const LayerPlan& l) {
  return l.window == 0;
}
inline bool sliding_consumer(const LayerPlan& l) {
  return sliding(l) && consumer(l);
}
inline bool full_consumer(const LayerPlan& l) {
  return full(l) && consumer(l);
}
inline bool sliding_above_first(const LayerPlan& l) {
  return sliding(l) && l.layer > 0;
}
inline bool shared_projection(const LayerPlan& l) {
  return l.values_from_keys;
}
inline bool partial_rotary(const LayerPlan& l) {
  return l.rope.kind == Rope::Kind::proportional && l.rope.partial_rotary_factor < 1;
}
inline bool scaled_rotary(const LayerPlan& l) {
  return l.rope.factor != 1;
}

inline FaultSite attention(bool (*acts_on)(const LayerPlan&)) {
  return {"attention", acts_on};
}
inline FaultSite output(bool (*acts_on)(const LayerPlan&) = any) {
  return {"output", acts_on};
}
/// What a cache is said to hold for a layer.
inline FaultSite cache(bool (*acts_on)(const LayerPlan&)) {
  return {"cache", acts_on};
}
inline FaultSite of(const char* part) {
  return {part, nullptr};
}
inline const FaultSite nowhere = {};

}  // namespace site
}  // namespace kvconform
