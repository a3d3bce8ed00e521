// The model compiled once more, with faulty decisions.
#include "properties/faults/faulty_reference.h"

#include "properties/faults/faulty_decisions.h"
#include "properties/subjects/reference_subject.hpp"
#include "reference/model.hpp"

namespace kvconform {

std::unique_ptr<Subject> faulty_reference(const std::string& name, FaultKind kind) {
  return std::make_unique<ReferenceSubject<Float32, Faulty>>(name, "float32", Faulty(kind));
}

}  // namespace kvconform
