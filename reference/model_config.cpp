#include <nlohmann/json.hpp>
#include "reference/model_config.h"
