#include "reference/random_weights.h"
#include <nlohmann/json.hpp>
