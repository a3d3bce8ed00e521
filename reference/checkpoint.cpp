#include <nlohmann/json.hpp>
#include "reference/checkpoint.h"
