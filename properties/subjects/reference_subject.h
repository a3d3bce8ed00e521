// The reference model behind the subject interface: one class for every precision and for planted
// faults. All capabilities, bit-stable, no state but its models and sessions: one a thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "properties/subject.h"
#include "reference/model.h"

namespace kvconform {

template <class N, class Decisions = Healthy>
class ReferenceSubject : public Subject {
 public:
  /// `noise`: for Noisy numerics, what is in force during each call.
  ReferenceSubject(std::string name, std::string dtype, Decisions decisions = {}, Noise noise = {});

  const SubjectInfo& info() const override { return info_; }
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

 private:
  using ModelType = Model<N, Decisions>;
  struct Session {
    ModelId model_id;
    std::shared_ptr<const ModelType> model;
    typename ModelType::Cache cache;
  };

  std::shared_ptr<const ModelType> model_at(ModelId model) const;
  Session& session_at(SessionId session);
  SessionId add_session(Session session);
  NoiseScope noise_for_call();

  SubjectInfo info_;
  Decisions decisions_;
  Noise noise_;
  std::int64_t next_id_ = 0;
  std::map<ModelId, std::shared_ptr<const ModelType>> models_;
  std::map<SessionId, Session> sessions_;
};

}  // namespace kvconform
