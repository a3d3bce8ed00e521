#include <nlohmann/json.hpp>
#include "reference/safetensors.h"
