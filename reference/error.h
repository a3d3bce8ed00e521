// Errors that a user can act on. Each has a stable id (listed with cause and remedy in the
// README.md of the component that raises it), names the thing and the value that is wrong, and says
// what to do.
//
//   throw Error("KV1016", "sliding_window is -1", "give a window of at least 1");
//
// Ids: KV10xx configuration, KV11xx sharing plan, KV12xx safetensors, KV13xx checkpoint, KV14xx
// model and cache, KV15xx CUDA engine, KV20xx cases, KV21xx subjects, KV22xx reports, KV23xx
// properties, KV30xx goldens, KV40xx command line, KV50xx benchmarks.
#pragma once

#include <stdexcept>
#include <string>

namespace kvconform {

/// The input is wrong: exit code 2, or a refusal by a subject.
class Error : public std::runtime_error {
 public:
  Error(std::string id, std::string problem, std::string remedy)
      : std::runtime_error(id + ": " + problem + "\n  remedy: " + remedy),
        id_(std::move(id)),
        problem_(std::move(problem)),
        remedy_(std::move(remedy)) {}

  const std::string& id() const { return id_; }
  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }

 private:
  std::string id_, problem_, remedy_;
};

/// The harness itself cannot go on (disk full, report not writable, a broken promise between our
/// own parts): exit code 5, never a verdict on a subject.
class HarnessError : public Error {
 public:
  using Error::Error;
};

}  // namespace kvconform
