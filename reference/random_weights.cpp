#include <nlohmann/json.hpp>
#include "reference/random_weights.h"
