// Calls handed on; errors of the input become refusals, errors of the device a broken subject.
#include "properties/subjects/cuda_subject.h"

#include <type_traits>
#ifdef KVCONFORM_PLANTED_SIDE
#include <optional>

#include "cuda/emulator/checked_run.h"
#endif
#include "reference/error.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

constexpr int kChunk = 16, kReserve = 16, kGranularity = 8;

[[noreturn]] void refuse(const std::string& message) {
  throw SubjectRefusal(SubjectRefusal::Kind::invalid, message);
}

#ifdef KVCONFORM_PLANTED_SIDE

/// For the launches of one request: the fault in force, and what the checker sees.
class Trial {
 public:
  explicit Trial(KernelTrial trial) {
    plant(trial.fault);
    if (trial.watched) run_.emplace();
  }
  ~Trial() { plant(PlantedFault::none); }

  void judge() const {
    if (run_ && !run_->reports().empty()) fail(run_->reports().front());
  }
  /// Of the emulator itself, such as threads of a block at different barriers.
  void judge(const dv::emu::Error& error) const {
    if (run_) fail(error.what());
  }

 private:
  [[noreturn]] static void fail(const std::string& report) {
    throw SubjectBroken(std::string(kRaceChecker) + ": " + report);
  }

  std::optional<dv::emu::CheckedRun> run_;
};

/// The body's result, unless the checker has something to say.
template <class Body>
auto tried(KernelTrial how, Body body) {
  const Trial trial(how);
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      trial.judge();
    } else {
      auto result = body();
      trial.judge();
      return result;
    }
  } catch (const dv::emu::Error& e) {
    trial.judge(e);
    throw;
  }
}

#else

template <class Body>
auto tried(KernelTrial, Body body) {
  return body();
}

#endif

template <class Body>
auto refusing(KernelTrial trial, Body body) {
  try {
    return tried(trial, body);
  } catch (const SubjectBroken&) {
    throw;
  } catch (const HarnessError& e) {
    if (e.id() == "KV1590") throw SubjectBroken(e.what());
    throw;
  } catch (const Error& e) {
    const bool unsupported = e.id() == "KV1505" || e.id() == "KV1508";
    if (unsupported) throw SubjectRefusal(SubjectRefusal::Kind::unsupported, e.what());
    refuse(e.what());
  } catch (const SubjectRefusal&) {
    throw;
  } catch (const std::runtime_error& e) {  // of the device, emulated or real
    throw SubjectBroken(e.what());
  }
}

Output output_of(const std::vector<float>& logits, int vocab_size, Trace trace) {
  Output output;
  output.logits.vocab = vocab_size;
  output.logits.positions = int(logits.size() / vocab_size);
  output.logits.values.assign(logits.begin(), logits.end());
  output.trace = std::move(trace);
  return output;
}

}  // namespace

CudaSubject::CudaSubject(std::string name, KernelTrial trial) : trial_(trial) {
  info_.name = std::move(name);
#ifdef KVCONFORM_GPU_SIDE
  info_.version = "1, on a GPU";
#else
  info_.version = "1, on emulated threads";
#endif
  info_.families = {"gemma3n_text", "gemma4_text"};
  info_.dtype = "float32";
  info_.capabilities = {"score",  "cache",       "chunked", "batch",   "ragged",
                        "rewind", "fork",        "save",    "reorder", "cache_report",
                        "trace",  "sharing_map", "start"};
  info_.margin = kReserve;
  info_.granularity = kGranularity;
  info_.bit_stable = true;
#ifndef KVCONFORM_GPU_SIDE
  info_.emulated = true;
#endif
}

SessionOptions CudaSubject::options(int batch, int capacity) const {
  SessionOptions o;
  o.batch = batch;
  o.capacity = capacity;
  o.chunk = kChunk;
  o.reserve = kReserve;
  o.granularity = kGranularity;
  o.policy = RewindPolicy::replay;
  o.poison = true;
  return o;
}

template <class Body>
auto CudaSubject::asked(Body body) {
  return refusing(trial_, body);
}

Subject::ModelId CudaSubject::load(const ModelSource& source) {
  return asked([&] {
    engines_[++next_id_] = std::make_shared<const Engine>(source.checkpoint());
    return next_id_;
  });
}

void CudaSubject::unload(ModelId model) {
  engine_at(model);
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.model == model; });
  engines_.erase(model);
}

Output CudaSubject::score(ModelId model, const TokenRows& tokens, bool trace) {
  return asked([&] {
    const auto engine = engine_at(model);
    Trace arrays;
    const auto logits = engine->score(tokens, trace ? &arrays : nullptr);
    return output_of(logits, engine->config().vocab_size, std::move(arrays));
  });
}

Subject::SessionId CudaSubject::open(ModelId model, int batch, int capacity, int start) {
  return asked([&] {
    SessionOptions o = options(batch, capacity);
    o.start = start;
    return add(model, std::make_unique<Session>(engine_at(model), o));
  });
}

Output CudaSubject::extend(SessionId session, const TokenRows& tokens, bool trace) {
  return asked([&] {
    Session& s = *session_at(session).session;
    Trace arrays;
    const auto logits = s.extend(tokens, Wanted::all, trace ? &arrays : nullptr);
    return output_of(logits, s.engine().config().vocab_size, std::move(arrays));
  });
}

void CudaSubject::rewind(SessionId session, const std::vector<int>& lengths) {
  asked([&] { session_at(session).session->rewind(lengths); });
}

Subject::SessionId CudaSubject::fork(SessionId session) {
  return asked([&] {
    const OpenSession& s = session_at(session);
    return add(s.model, s.session->fork());
  });
}

void CudaSubject::reorder(SessionId session, const std::vector<int>& rows) {
  asked([&] { session_at(session).session->reorder(rows); });
}

void CudaSubject::save(SessionId session, const std::filesystem::path& file) {
  asked([&] { session_at(session).session->save(file); });
}

Subject::SessionId CudaSubject::restore(ModelId model, const std::filesystem::path& file) {
  return asked([&] { return add(model, Session::restore(engine_at(model), options(1, 0), file)); });
}

CacheReport CudaSubject::cache(SessionId session) {
  const Session& s = *session_at(session).session;
  CacheReport report;
  for (int row = 0; row < s.batch(); ++row) report.lengths.push_back(s.length(row));
  for (const LayerPlan& layer : s.engine().plan())
    report.layers.push_back(
        {layer.layer, to_string(layer.role), layer.owner, s.positions(layer), s.bytes(layer)});
  report.replays = s.replays();
  return report;
}

void CudaSubject::close(SessionId session) {
  session_at(session);
  sessions_.erase(session);
}

std::shared_ptr<const Engine> CudaSubject::engine_at(ModelId model) const {
  const auto found = engines_.find(model);
  if (found == engines_.end()) refuse("there is no model " + std::to_string(model));
  return found->second;
}

CudaSubject::OpenSession& CudaSubject::session_at(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) refuse("there is no session " + std::to_string(session));
  return found->second;
}

Subject::SessionId CudaSubject::add(ModelId model, std::unique_ptr<Session> session) {
  sessions_.emplace(++next_id_, OpenSession{model, std::move(session)});
  return next_id_;
}

std::unique_ptr<Subject> make_cuda_subject(const std::string& name) {
  return std::make_unique<CudaSubject>(name);
}

#ifdef KVCONFORM_PLANTED_SIDE
std::unique_ptr<Subject> make_cuda_subject(const std::string& name, KernelTrial trial) {
  return std::make_unique<CudaSubject>(name, trial);
}
#endif

int cuda_devices() {
  return dv::device_count();
}

}  // namespace kvconform::cuda::inline DV_MACHINE
