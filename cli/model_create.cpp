// model create: writes a random checkpoint in Hugging Face layout, tiny unless --like names a
// published size. Any field of its config can be set.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "reference/error.h"
#include "reference/published_configs.h"
#include "reference/random_weights.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::string folder, family = "gemma3n", like, dead_tensors = "absent", dtype = "float32";
  std::vector<std::string> settings;
  std::uint64_t seed = 0;
};

}  // namespace
}  // namespace kvconform::cli
