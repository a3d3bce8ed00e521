// The reference in float32, what goldens hash, and in float64, the truth.
#include "reference/model.hpp"

namespace kvconform {

template class Model<Float32>;
template class Model<Float64>;

}  // namespace kvconform
