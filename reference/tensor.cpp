#include "reference/tensor.h"
