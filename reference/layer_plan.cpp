#include "reference/layer_plan.h"
