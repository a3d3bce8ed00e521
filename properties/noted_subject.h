// A subject whose last failed request is noted down, whoever made it: a verdict can then say at
// which request, of which call of the case and with which shapes, the subject refused or broke.
// What a subject says of a refusal need not name any of that.
//
//   auto log = std::make_shared<RequestLog>();
//   NotedSubject subject(make_subject(name), log);
//   … judge a case …
//   log->explain(verdict);
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/subject.h"
#include "properties/verdict.h"

namespace kvconform {

/// Shared by the subjects that a case asks: the requests of all of them are one sequence.
class RequestLog {
 public:
  void begin_case() { *this = RequestLog(); }
  void at_call(int index) { call_ = index; }
  void failed(const std::string& request, const std::string& said);
  void succeeded() { failed_.reset(); }  ///< what failed before was not what ended the case

  /// Names the request in a verdict that came of its failure.
  void explain(Verdict& verdict) const;

  std::map<std::filesystem::path, std::vector<int>> saved;  ///< lengths of the rows in each file

 private:
  struct Failed {
    std::string request, said;
  };
  int call_ = -1;
  std::optional<Failed> failed_;
};

class NotedSubject : public Subject {
 public:
  NotedSubject(std::unique_ptr<Subject> subject, std::shared_ptr<RequestLog> log)
      : subject_(std::move(subject)), log_(std::move(log)) {}

  const SubjectInfo& info() const override { return subject_->info(); }
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
  void at_call(int index) override { log_->at_call(index); }
  void end_case(std::chrono::milliseconds patience) override { subject_->end_case(patience); }

 private:
  template <class Words, class Request>
  auto noted(Words words, Request request);
  std::string on(SessionId session) const;

  std::unique_ptr<Subject> subject_;
  std::shared_ptr<RequestLog> log_;
  std::map<SessionId, std::vector<int>> lengths_;  ///< of the rows of each session
};

}  // namespace kvconform
