// The reference rounding where a bfloat16 or float16 model stores a tensor.
#include "reference/model.hpp"

namespace kvconform {

template class Model<BFloat16>;
template class Model<Float16>;

}  // namespace kvconform
