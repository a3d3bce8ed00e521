// The noise probe: the reference on numbers whose every operation is slightly off.
#include "reference/model.hpp"

namespace kvconform {

template class Model<Noisy>;

}  // namespace kvconform
