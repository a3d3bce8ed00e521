// The implementation that subjects are held against. It notes whether anybody asked it to compute,
// so that a report says what was used and what was not; and what goes wrong with it carries its
// name, or a verdict would blame the subject under test.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "properties/subject.h"

namespace kvconform {

class WatchedSubject : public Subject {
 public:
  WatchedSubject(std::string name, std::unique_ptr<Subject> subject)
      : name_(std::move(name)), subject_(std::move(subject)) {}

  bool used() const { return used_; }
  void forget_use() { used_ = false; }

  const SubjectInfo& info() const override { return subject_->info(); }
  ModelId load(const ModelSource& source) override {
    return named([&] { return subject_->load(source); });
  }
  void unload(ModelId model) override {
    named([&] { subject_->unload(model); });
  }
  Output score(ModelId model, const TokenRows& tokens, bool trace) override {
    used_ = true;
    return named([&] { return subject_->score(model, tokens, trace); });
  }
  SessionId open(ModelId model, int batch, int capacity, int start) override {
    return named([&] { return subject_->open(model, batch, capacity, start); });
  }
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    used_ = true;
    return named([&] { return subject_->extend(session, tokens, trace); });
  }
  void rewind(SessionId session, const std::vector<int>& lengths) override {
    named([&] { subject_->rewind(session, lengths); });
  }
  SessionId fork(SessionId session) override {
    return named([&] { return subject_->fork(session); });
  }
  void reorder(SessionId session, const std::vector<int>& rows) override {
    named([&] { subject_->reorder(session, rows); });
  }
  void save(SessionId session, const std::filesystem::path& file) override {
    named([&] { subject_->save(session, file); });
  }
  SessionId restore(ModelId model, const std::filesystem::path& file) override {
    return named([&] { return subject_->restore(model, file); });
  }
  CacheReport cache(SessionId session) override {
    return named([&] { return subject_->cache(session); });
  }
  void close(SessionId session) override {
    named([&] { subject_->close(session); });
  }
  void at_call(int index) override { subject_->at_call(index); }
  void end_case(std::chrono::milliseconds patience) override {
    named([&] { subject_->end_case(patience); });
  }

 private:
  template <class Request>
  std::invoke_result_t<Request> named(Request request) {
    const std::string whose = name_ + ", which the subject is held against: ";
    try {
      return request();
    } catch (const SubjectRefusal& e) {
      throw SubjectRefusal(e.kind, whose + e.what());
    } catch (const SubjectUnusable& e) {
      throw SubjectUnusable(whose + e.what());
    } catch (const SubjectBroken& e) {
      throw SubjectBroken(whose + e.what());
    }
  }

  std::string name_;
  std::unique_ptr<Subject> subject_;
  bool used_ = false;
};

}  // namespace kvconform
