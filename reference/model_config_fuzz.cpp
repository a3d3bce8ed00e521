// Fuzz target: any text as a config.json. It is parsed, read as a configuration and, where that
// succeeds, planned. Only kvconform::Error may come out; any other exception, undefined behaviour
// or runaway allocation is a finding. Add a case by putting a file into fuzz_corpus/model_config.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "reference/error.h"
#include "reference/layer_plan.h"
#include "reference/model_config.h"

using namespace kvconform;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    plan_layers(parse_model_config(parse_config_text(text, "fuzz input")));
  } catch (const Error&) {
    // A refusal with an id: what bad input is meant to get.
  }
  return 0;
}
