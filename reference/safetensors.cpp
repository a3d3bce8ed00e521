#include "reference/safetensors.h"
#include <nlohmann/json.hpp>
