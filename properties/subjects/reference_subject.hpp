// Definitions of reference_subject.h. What the model throws becomes a refusal: its checks are made
// before anything changes, as the protocol asks.
#pragma once

#include <fstream>
#include <type_traits>

#include "properties/subjects/reference_subject.h"
#include "reference/error.h"

namespace kvconform {

namespace reference_subject {

[[noreturn]] inline void refuse(const std::string& message) {
  throw SubjectRefusal(SubjectRefusal::Kind::invalid, message);
}

/// Runs `body`; errors about the input become refusals, errors of the model itself a broken
/// subject.
template <class Body>
auto refusing(Body body) {
  try {
    return body();
  } catch (const HarnessError& e) {
    if (e.id() == "KV1490") throw SubjectBroken(e.what());  // a planted fault got past the plan
    throw;
  } catch (const Error& e) {
    if (e.id() == "KV1406") throw SubjectRefusal(SubjectRefusal::Kind::unsupported, e.what());
    refuse(e.what());
  }
}

}  // namespace reference_subject

template <class N, class D>
ReferenceSubject<N, D>::ReferenceSubject(std::string name, std::string dtype, D decisions,
                                         Noise noise)
    : decisions_(decisions), noise_(noise) {
  info_.name = std::move(name);
  info_.version = "1";
  info_.families = {"gemma3n_text", "gemma4_text"};
  info_.dtype = std::move(dtype);
  info_.capabilities = {"score",        "cache", "chunked",    "batch",   "ragged",
                        "rewind",       "fork",  "save",       "reorder", "start",
                        "cache_report", "trace", "sharing_map"};
  info_.margin = CacheShape{}.margin;
  info_.granularity = kCacheGranularity;
  info_.bit_stable = !std::is_same_v<N, Noisy>;
}

template <class N, class D>
NoiseScope ReferenceSubject<N, D>::noise_for_call() {
  return NoiseScope(noise_);
}

template <class N, class D>
Subject::ModelId ReferenceSubject<N, D>::load(const ModelSource& source) {
  return reference_subject::refusing([&] {
    const NoiseScope noise = noise_for_call();
    models_[++next_id_] = std::make_shared<const ModelType>(source.checkpoint(), 1, decisions_);
    return next_id_;
  });
}

template <class N, class D>
void ReferenceSubject<N, D>::unload(ModelId model) {
  model_at(model);
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.model_id == model; });
  models_.erase(model);
}

template <class N, class D>
Output ReferenceSubject<N, D>::score(ModelId model, const TokenRows& tokens, bool trace) {
  return reference_subject::refusing([&] {
    const NoiseScope noise = noise_for_call();
    Output output;
    output.logits = to_logits(model_at(model)->score(tokens, trace ? &output.trace : nullptr));
    return output;
  });
}

template <class N, class D>
Subject::SessionId ReferenceSubject<N, D>::open(ModelId model, int batch, int capacity, int start) {
  return reference_subject::refusing([&] {
    if (batch < 1 || capacity < 0 || start < 0) reference_subject::refuse("open: negative sizes");
    CacheShape shape;
    shape.batch = batch;
    shape.capacity = capacity;
    shape.start = start;
    auto loaded = model_at(model);
    auto cache = loaded->open(shape);
    return add_session({model, std::move(loaded), std::move(cache)});
  });
}

template <class N, class D>
Output ReferenceSubject<N, D>::extend(SessionId session, const TokenRows& tokens, bool trace) {
  return reference_subject::refusing([&] {
    const NoiseScope noise = noise_for_call();
    Session& s = session_at(session);
    Output output;
    output.logits = to_logits(s.model->extend(s.cache, tokens, trace ? &output.trace : nullptr));
    return output;
  });
}

template <class N, class D>
void ReferenceSubject<N, D>::rewind(SessionId session, const std::vector<int>& lengths) {
  reference_subject::refusing([&] { session_at(session).cache.rewind(lengths); });
}

template <class N, class D>
Subject::SessionId ReferenceSubject<N, D>::fork(SessionId session) {
  return add_session(Session(session_at(session)));
}

template <class N, class D>
void ReferenceSubject<N, D>::reorder(SessionId session, const std::vector<int>& rows) {
  reference_subject::refusing([&] { session_at(session).cache.reorder(rows); });
}

template <class N, class D>
void ReferenceSubject<N, D>::save(SessionId session, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  session_at(session).cache.save(out);  // throws HarnessError where the disk is full
}

template <class N, class D>
Subject::SessionId ReferenceSubject<N, D>::restore(ModelId model,
                                                   const std::filesystem::path& file) {
  return reference_subject::refusing([&] {
    auto loaded = model_at(model);
    std::ifstream in(file, std::ios::binary);
    auto cache = loaded->restore(in);
    return add_session({model, std::move(loaded), std::move(cache)});
  });
}

template <class N, class D>
CacheReport ReferenceSubject<N, D>::cache(SessionId session) {
  const Session& s = session_at(session);
  CacheReport report;
  for (int row = 0; row < s.cache.batch(); ++row) report.lengths.push_back(s.cache.length(row));
  for (const LayerPlan& layer : s.model->plan()) {
    report.layers.push_back({layer.layer, to_string(layer.role), layer.owner,
                             s.cache.positions(layer), s.cache.bytes(layer)});
  }
  return report;
}

template <class N, class D>
void ReferenceSubject<N, D>::close(SessionId session) {
  session_at(session);
  sessions_.erase(session);
}

template <class N, class D>
auto ReferenceSubject<N, D>::model_at(ModelId model) const -> std::shared_ptr<const ModelType> {
  const auto found = models_.find(model);
  if (found == models_.end())
    reference_subject::refuse("there is no model " + std::to_string(model));
  return found->second;
}

template <class N, class D>
auto ReferenceSubject<N, D>::session_at(SessionId session) -> Session& {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    reference_subject::refuse("there is no session " + std::to_string(session));
  }
  return found->second;
}

template <class N, class D>
Subject::SessionId ReferenceSubject<N, D>::add_session(Session session) {
  sessions_.emplace(++next_id_, std::move(session));
  return next_id_;
}

}  // namespace kvconform
