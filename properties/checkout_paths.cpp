// As CMake knows them.
#include "properties/checkout_paths.h"

namespace kvconform {

const char* const kRegressionsFolder = KVCONFORM_REGRESSIONS_SOURCE_DIR;
const char* const kAdaptersFolder = KVCONFORM_ADAPTERS_SOURCE_DIR;
const char* const kEnvironmentsFolder = KVCONFORM_ENVIRONMENTS_DIR;
const char* const kPluginHost = KVCONFORM_PLUGIN_HOST;

}  // namespace kvconform
