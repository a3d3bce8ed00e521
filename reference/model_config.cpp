#include "reference/model_config.h"
#include <nlohmann/json.hpp>
