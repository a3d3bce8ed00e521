// An implementation under test. The interface is the subject protocol, version 1, as C++ calls: the
// same words, the same rules, so that a subject in another process adds framing and nothing else.
//
// A subject refuses with SubjectRefusal (`unsupported`: it does not offer this; `invalid`: the
// input is wrong, as it should be for bad input) and breaks with SubjectBroken. A refusal changes
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/checkpoint.h"
#include "reference/trace.h"

namespace kvconform {

using TokenRows =
    std::vector<std::vector<int>>;  ///< one list of token ids a batch row; lists may be empty

struct SubjectInfo {
  std::string name, version;
  std::set<std::string> families;  ///< "gemma3n_text", "gemma4_text"
  std::string dtype =
      "float32";  ///< the precision it computes in: float64, float32, bfloat16, float16
  std::set<std::string> capabilities;  ///< score, cache, chunked, batch, ragged, rewind, fork,
                                       ///< reorder, save, cache_report, trace, sharing_map, start
  int margin =
      0;  ///< how far behind the longest length a row can be rewound once a window has wrapped
  int granularity = 1;  ///< cache memory is reserved in multiples of so many positions
  /// Promises the same bits under any chunking, batch and history. Comparisons within the subject
  /// are then for bit equality, else by budget. Only subjects written here promise it.
  bool bit_stable = false;
  bool emulated = false;  ///< on emulated threads: cases are drawn by CaseSize::emulated
};

class SubjectRefusal : public std::runtime_error {
 public:
  enum class Kind { unsupported, invalid };
  SubjectRefusal(Kind k, const std::string& message) : std::runtime_error(message), kind(k) {}
  Kind kind;
};

/// Crash, hang, protocol violation, or an error of kind `failed`.
class SubjectBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Broken as a whole: it cannot even say what it is. Ends the subject's run with one verdict.
class SubjectUnusable : public SubjectBroken {
 public:
  using SubjectBroken::SubjectBroken;
};

/// Somebody asked the run to stop while a subject was at work. No verdict.
class SubjectInterrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

/// What a subject computed in one call: logits of every new position, rows one after the other, and
/// the trace where it was asked for (its arrays have one entry a position, in the same order).
struct Output {
  Logits logits;
  Trace trace;
};

struct CacheReport {
  struct Layer {
    int layer = 0;
    std::string role;  ///< producer, consumer, independent
    int owner = 0;
    std::int64_t positions =
        0;  ///< key positions a later query could still be shown, summed over the rows
    std::int64_t bytes = 0;  ///< memory reserved for the layer's keys and values
  };
  std::vector<int> lengths;  ///< one a row
  std::vector<Layer> layers;
  std::int64_t replays = 0;
};

/// A model to load: in memory for subjects in this process, and as files for the others, written
/// only when somebody asks for the path and removed with the last user.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual std::shared_ptr<const Checkpoint> checkpoint() const = 0;
  virtual std::filesystem::path weights_path() const = 0;
  /// The text config alone, as `load` hands it over. A model that every subject must refuse has no
  /// checkpoint (asking for it throws why), but it has this.
  virtual nlohmann::json text_config() const;
};

class Subject {
 public:
  using ModelId = std::int64_t;
  using SessionId = std::int64_t;

  virtual ~Subject() = default;
  virtual const SubjectInfo& info() const = 0;

  virtual ModelId load(const ModelSource& source) = 0;
  virtual void unload(ModelId model) = 0;  ///< closes the model's sessions

  /// Logits with no cache anywhere.
  virtual Output score(ModelId model, const TokenRows& tokens, bool trace = false) = 0;

  /// An empty cache for `batch` rows of up to `capacity` tokens; the first token of each row stands
  /// at position `start` (capability `start`).
  virtual SessionId open(ModelId model, int batch, int capacity, int start = 0) = 0;
  virtual Output extend(SessionId session, const TokenRows& tokens, bool trace = false) = 0;
  virtual void rewind(SessionId session, const std::vector<int>& lengths) = 0;
  virtual SessionId fork(SessionId session) = 0;
  virtual void reorder(SessionId session, const std::vector<int>& rows) = 0;
  virtual void save(SessionId session, const std::filesystem::path& file) = 0;
  virtual SessionId restore(ModelId model, const std::filesystem::path& file) = 0;
  virtual CacheReport cache(SessionId session) = 0;
  virtual void close(SessionId session) = 0;

  /// Which call of the case the next requests belong to, for the words about what goes wrong; −1:
  /// none of them.
  virtual void at_call(int /*index*/) {}

  /// The end of a case: SubjectBroken for what the subject did after its last answer, or while a
  /// model was put away. `patience`: how long to wait for words that come late.
  virtual void end_case(std::chrono::milliseconds /*patience*/) {}
};

}  // namespace kvconform
