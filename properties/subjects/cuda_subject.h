// The CUDA engine behind the subject interface, on emulated threads or on a GPU: one class,
// compiled once for each machine. All capabilities; bit-stable; float32. Its sessions have small
// rings, short launches and a small reserve, so that cases of a few tokens cross all of them;
// rewinds beyond the reserve are replayed.
//
// On the machine `planted` a subject can be watched, and can have a wrong kernel: what the race
// checker reports of a request makes the subject broken, with the report as its words.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cuda/engine.h"
#include "properties/subject.h"
#include "properties/subjects/kernel_trial.h"

namespace kvconform::cuda::inline DV_MACHINE {

class CudaSubject : public Subject {
 public:
  explicit CudaSubject(std::string name, KernelTrial trial = {});

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
  struct OpenSession {
    ModelId model;
    std::unique_ptr<Session> session;
  };

  std::shared_ptr<const Engine> engine_at(ModelId model) const;
  OpenSession& session_at(SessionId session);
  SessionId add(ModelId model, std::unique_ptr<Session> session);
  SessionOptions options(int batch, int capacity) const;
  template <class Body>
  auto asked(Body body);

  SubjectInfo info_;
  KernelTrial trial_;
  std::int64_t next_id_ = 0;
  std::map<ModelId, std::shared_ptr<const Engine>> engines_;
  std::map<SessionId, OpenSession> sessions_;
};

std::unique_ptr<Subject> make_cuda_subject(const std::string& name);
/// Of the machine `planted` only.
std::unique_ptr<Subject> make_cuda_subject(const std::string& name, KernelTrial trial);
int cuda_devices();

}  // namespace kvconform::cuda::inline DV_MACHINE
