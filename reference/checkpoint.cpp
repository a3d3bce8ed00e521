#include "reference/checkpoint.h"
#include <nlohmann/json.hpp>
