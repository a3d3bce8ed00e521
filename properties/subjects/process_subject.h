// A subject in another process: `process:COMMAND`, speaking the subject protocol (version 1,
// properties/subject-protocol.md) on its standard streams.
//
// The process starts when it is first needed, is ended at the first failure and started anew when
// the next case loads its model, so that one crash costs one case. Every failure says what was
// asked, what came instead and what the process last wrote to standard error.
//
//   ProcessSubject subject("python3 my_engine.py", {.timeout = 5});
//   const auto model = subject.load(source);
//
// Not for several threads at once. Requests throw SubjectBroken, SubjectRefusal, SubjectUnusable
// (hello failed twice) and SubjectInterrupted.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "properties/subject.h"
#include "properties/subject_registry.h"
#include "properties/subjects/child_process.h"

namespace kvconform {

class ProcessSubject : public Subject {
 public:
  ProcessSubject(std::string command, const SubjectOptions& options);
  ~ProcessSubject() override;  ///< asks it to quit, then kills what is left

  const SubjectInfo& info() const override;
  ModelId load(const ModelSource& source) override;
  void unload(ModelId model) override;
  Output score(ModelId model, const TokenRows& tokens, bool trace) override;
  SessionId open(ModelId model, int batch, int capacity, int start) override;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override;
  void rewind(SessionId session, const std::vector<int>& lengths) override;
  SessionId fork(SessionId session) override;
  void reorder(SessionId session, const std::vector<int>& rows) override;
  void save(SessionId session, const std::filesystem::path& file) override;
  SessionId restore(ModelId model, const std::filesystem::path& file) override;
  CacheReport cache(SessionId session) override;
  void close(SessionId session) override;
  void end_case(std::chrono::milliseconds patience) override;

 private:
  /// What a model or session is called over there, and what its answers must fit.
  struct LoadedModel {
    std::string id;
    int life = 0;  ///< of which process; ids of an earlier one mean nothing
    int vocab = 0, layers = 0;
  };
  struct Session {
    std::string id;
    ModelId model_id = 0;
    LoadedModel model;
    int batch = 0;  ///< −1: restored from a file that another process saved
  };

  void start();  ///< unless it runs; twice no proper hello: SubjectUnusable
  void start_once();
  const LoadedModel& model_at(ModelId model) const;
  const Session& session_at(SessionId session) const;
  SessionId add_session(Session session, const nlohmann::json& reply);

  double timeout_of(const std::string& request) const;
  nlohmann::json ask(const nlohmann::json& request);
  Output ask_for_logits(const nlohmann::json& request, const TokenRows& tokens, int vocab,
                        bool trace);
  /// Runs `body`; what the child or its messages do wrong ends the process and is SubjectBroken.
  template <class Body>
  auto guarded(const std::string& request, Body body);
  std::string surplus_words() const;
  nlohmann::json exchange(const nlohmann::json& request);
  [[noreturn]] void refuse_or_break(const std::string& request, const nlohmann::json& reply);
  [[noreturn]] void fail(std::string what);  ///< ends the process, adds its last words

  std::string command_;
  SubjectOptions options_;
  SubjectInfo info_;
  bool known_ = false;           ///< info_ is the first answer to hello
  std::string broke_at_unload_;  ///< told at the end of the case: destructors unload
  std::string unusable_;         ///< why no process will be started any more
  std::unique_ptr<ChildProcess> child_;
  ChildProcess::Clock::time_point deadline_;
  int life_ = 0;
  std::int64_t next_id_ = 0;
  std::map<ModelId, LoadedModel> models_;
  std::map<SessionId, Session> sessions_;
  std::map<std::string, int> saved_batches_;  ///< rows of each saved session, by file
};

}  // namespace kvconform
