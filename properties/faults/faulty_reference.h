// The reference with one of its decisions changed.
#pragma once

#include <memory>
#include <string>

#include "properties/faults/fault_kind.h"
#include "properties/subject.h"

namespace kvconform {

std::unique_ptr<Subject> faulty_reference(const std::string& name, FaultKind kind);

}  // namespace kvconform
