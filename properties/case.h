// A case: everything one run needs, as one JSON file that can be replayed. Written to disk before
// it runs, so that a crash, a hang or a kill leaves the input behind.
//
// Case i of a property is a pure function of (seed, property, i): size included, the same on every
// machine and for any number of jobs and shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "properties/subject.h"
#include "reference/random_weights.h"

namespace kvconform {

/// One request to a subject. `session` names sessions by number in the order a case opens them.
struct Call {
  enum class Kind { score, open, extend, rewind, fork, reorder, save, restore, close };
  Kind kind = Kind::extend;
  int session = 0;   ///< the session it acts on, or makes (open, fork, restore)
  int from = 0;      ///< fork, restore: the session it comes from (restore: the one that was saved)
  TokenRows tokens;  ///< score, extend
  int batch = 1, capacity = 0, start = 0;  ///< open
  std::vector<int> numbers;                ///< rewind: lengths; reorder: source rows
  bool operator==(const Call&) const = default;
};

/// A generated model (configuration and a recipe for its weights) or a checkpoint on disk.
struct ModelSpec {
  std::string config_text;  ///< JSON of the text config (with `kv_sharing_map` where one is used)
  WeightsRecipe weights;    ///< for generated models
  std::filesystem::path
      folder;  ///< for checkpoints: a folder in Hugging Face layout; config_text is then empty
};

struct Case {
  std::string property;
  std::string subject, against;  ///< whom it was recorded for; empty for a fresh case
  std::string comment;           ///< for people, e.g. where a kept case comes from
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  ModelSpec model;
  std::vector<Call> calls;
};

nlohmann::json to_json(const Case& test_case);
Case case_from_json(const nlohmann::json& json, const std::string& origin);  ///< Error KV20xx
Case parse_case(const std::string& text, const std::string& origin);         ///< Error KV20xx
void write_case(const Case& test_case, const std::filesystem::path& file);  ///< HarnessError KV2010
Case read_case(const std::filesystem::path& file);                          ///< Error KV20xx

const char* to_string(Call::Kind kind);  ///< the request of the subject protocol

/// Makes the model of a case available to subjects.
std::unique_ptr<ModelSource> make_model_source(const ModelSpec& spec);

}  // namespace kvconform
