// A subject whose saved sessions are restored somewhere else: into another load of the model, in
// the same subject or in another instance of it (another process, for subjects that are one). Every
// other request goes to where its session lives.
//
// The second load is made for the first restore, so that nothing of it exists while a session is
// saved.
#pragma once

#include <functional>
#include <map>

#include "properties/subject.h"

namespace kvconform {

class TwoLoads : public Subject {
 public:
  /// `there` may be `here`; it is asked for once, at the first restore.
  TwoLoads(Subject& here, std::function<Subject&()> there)
      : here_(here), there_(std::move(there)) {}

  const SubjectInfo& info() const override { return here_.info(); }
  /// The source must live as long as the model.
  ModelId load(const ModelSource& source) override;
  void unload(ModelId model) override;
  Output score(ModelId model, const TokenRows& tokens, bool trace) override;
  SessionId open(ModelId model, int batch, int capacity, int start) override;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override;
  void rewind(SessionId session, const std::vector<int>& lengths) override;
  SessionId fork(SessionId session) override;
  void reorder(SessionId session, const std::vector<int>& rows) override;
  void save(SessionId session, const std::filesystem::path& file) override;
  /// Into the load that did not save it.
  SessionId restore(ModelId model, const std::filesystem::path& file) override;
  CacheReport cache(SessionId session) override;
  void close(SessionId session) override;
  void at_call(int index) override { here_.at_call(index); }

 private:
  struct Load {
    Subject* subject = nullptr;
    ModelId id = 0;
  };
  struct Model {
    const ModelSource* source = nullptr;
    Load here, there;
  };
  struct Session {
    ModelId model = 0;
    bool is_there = false;
    SessionId id = 0;
  };

  Load& load_of(ModelId model, bool there);
  Subject& subject_of(const Session& session);
  const Session& at(SessionId session) const;
  SessionId keep(Session session);

  Subject& here_;
  std::function<Subject&()> there_;
  std::map<ModelId, Model> models_;
  std::map<SessionId, Session> sessions_;
  std::map<std::filesystem::path, bool> saved_there_;
  std::int64_t next_ = 0;
};

}  // namespace kvconform
