// The healthy reference in each of its precisions.
#include "properties/subjects/reference_subject.hpp"

namespace kvconform {

template class ReferenceSubject<Float32>;
template class ReferenceSubject<Float64>;
template class ReferenceSubject<BFloat16>;
template class ReferenceSubject<Float16>;
template class ReferenceSubject<Noisy>;

}  // namespace kvconform
