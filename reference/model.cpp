// The numerics that the reference is offered in.
#include "reference/model.hpp"

namespace kvconform {

template class Model<Float32>;
template class Model<Float64>;
template class Model<BFloat16>;
template class Model<Float16>;
template class Model<Noisy>;

}  // namespace kvconform
