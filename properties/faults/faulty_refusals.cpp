// Faults in what is refused, and in what is said about memory.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "properties/faults/wrapped_subject.h"

namespace kvconform {
namespace {

class ClampedTokens : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  Output score(ModelId model, const TokenRows& tokens, bool trace) override {
    return inner().score(model, clamped(model, tokens), trace);
  }
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    return WrappedSubject::extend(session, clamped(book(session).model, tokens), trace);
  }

 private:
  TokenRows clamped(ModelId model, TokenRows tokens) {
    const int vocab = checkpoint(model)->config().vocab_size;
    for (auto& row : tokens)
      for (int& id : row) id = std::clamp(id, 0, vocab - 1);
    return tokens;
  }
};

class NoCapacity : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;

 protected:
  int inner_capacity(int capacity) const override { return 4 * capacity + 1024; }
};

class MissingRows : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    TokenRows rows = tokens;
    rows.resize(std::size_t(book(session).batch));
    return WrappedSubject::extend(session, rows, trace);
  }
};

class HalfACall : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    try {
      return WrappedSubject::extend(session, tokens, trace);
    } catch (const SubjectRefusal&) {
      take_what_fits(session, tokens);
      throw;
    }
  }

 private:
  /// Row by row, up to the first token or row that was refused.
  void take_what_fits(SessionId session, const TokenRows& tokens) {
    Book& of = book(session);
    for (std::size_t r = 0; r < tokens.size() && r < of.lengths.size(); ++r) {
      for (int id : tokens[r]) {
        TokenRows one(of.lengths.size());
        one[r] = {id};
        try {
          inner().extend(of.inner, one, false);
        } catch (const SubjectRefusal&) {
          return;
        }
      }
    }
  }
};

/// Loads what must be refused, where the refusal speaks of `about`: a model that answers nothing.
class AcceptingLoader : public WrappedSubject {
 public:
  AcceptingLoader(std::unique_ptr<Subject> inner, std::string about)
      : WrappedSubject(std::move(inner)), about_(std::move(about)) {}

  ModelId load(const ModelSource& source) override {
    try {
      return WrappedSubject::load(source);
    } catch (const SubjectRefusal& e) {
      if (std::string(e.what()).find(about_) == std::string::npos) throw;
      return kPhantom;
    }
  }
  void unload(ModelId model) override {
    if (model != kPhantom) WrappedSubject::unload(model);
  }

 private:
  static constexpr ModelId kPhantom = -1;
  const std::string about_;
};

/// Refuses models that a healthy subject takes, and those that it does not take as it does.
class PickyLoader : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  ModelId load(const ModelSource& source) override {
    const ModelId model = WrappedSubject::load(source);
    const std::string why = objection(*checkpoint(model));
    if (why.empty()) return model;
    unload(model);
    throw SubjectRefusal(SubjectRefusal::Kind::invalid, why);
  }

 private:
  virtual std::string objection(const Checkpoint& checkpoint) const = 0;
};

class DeadTensorsRequired : public PickyLoader {
 public:
  using PickyLoader::PickyLoader;

 private:
  std::string objection(const Checkpoint& checkpoint) const override {
    if (!checkpoint.report().dead.empty()) return "";
    for (const LayerPlan& layer : checkpoint.plan()) {
      if (!layer.owns_keys())
        return "layers." + std::to_string(layer.layer) + ".self_attn.k_proj.weight is missing";
    }
    return "";
  }
};

class PrefixUnknown : public PickyLoader {
 public:
  using PickyLoader::PickyLoader;

 private:
  std::string objection(const Checkpoint& checkpoint) const override {
    return checkpoint.report().prefix == "model." ? "" : "model.embed_tokens.weight is missing";
  }
};

class OneWidthRefused : public PickyLoader {
 public:
  using PickyLoader::PickyLoader;

 private:
  std::string objection(const Checkpoint& checkpoint) const override {
    const bool list = !checkpoint.config_json()["intermediate_size"].is_number();
    const bool fits = list || checkpoint.config().family != Family::gemma3n;
    return fits ? "" : "intermediate_size: a list is expected";
  }
};

class ConsumersHoldCaches : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  CacheReport cache(SessionId session) override {
    CacheReport report = WrappedSubject::cache(session);
    for (auto& layer : report.layers) {
      const auto& owner = report.layers[std::size_t(layer.owner)];
      if (layer.role == "consumer") layer.positions = owner.positions, layer.bytes = owner.bytes;
    }
    return report;
  }
};

class WindowsReserveCapacity : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  CacheReport cache(SessionId session) override {
    CacheReport report = WrappedSubject::cache(session);
    const Book& of = book(session);
    for (const LayerPlan& layer : checkpoint(of.model)->plan()) {
      if (layer.window == 0 || !layer.owns_keys()) continue;
      auto& bytes = report.layers[std::size_t(layer.layer)].bytes;
      const std::int64_t a_position = cache_bytes_per_token(layer, int(sizeof(float)));
      bytes = std::max(bytes, a_position * of.capacity * of.batch);
    }
    return report;
  }
};

class ReportForgetsRewind : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  CacheReport cache(SessionId session) override {
    CacheReport report = WrappedSubject::cache(session);
    report.lengths = longest_[session];
    return report;
  }
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    Output output = WrappedSubject::extend(session, tokens, trace);
    const std::vector<int>& lengths = book(session).lengths;
    std::vector<int>& longest = longest_[session];
    longest.resize(lengths.size());
    for (std::size_t r = 0; r < lengths.size(); ++r) longest[r] = std::max(longest[r], lengths[r]);
    return output;
  }
  void close(SessionId session) override {
    longest_.erase(session);
    WrappedSubject::close(session);
  }
  SessionId fork(SessionId session) override {
    const SessionId copy = WrappedSubject::fork(session);
    longest_[copy] = longest_[session];
    return copy;
  }
  SessionId restore(ModelId model, const std::filesystem::path& file) override {
    const SessionId copy = WrappedSubject::restore(model, file);
    longest_[copy] = book(copy).lengths;
    return copy;
  }
  void reorder(SessionId session, const std::vector<int>& rows) override {
    WrappedSubject::reorder(session, rows);
    longest_[session] = book(session).lengths;
  }

 private:
  std::map<SessionId, std::vector<int>> longest_;
};

}  // namespace

std::unique_ptr<Subject> accepts_tokens_outside_vocabulary(std::unique_ptr<Subject> inner) {
  return std::make_unique<ClampedTokens>(std::move(inner));
}
std::unique_ptr<Subject> accepts_extend_past_capacity(std::unique_ptr<Subject> inner) {
  return std::make_unique<NoCapacity>(std::move(inner));
}
std::unique_ptr<Subject> accepts_missing_rows(std::unique_ptr<Subject> inner) {
  return std::make_unique<MissingRows>(std::move(inner));
}
std::unique_ptr<Subject> refusal_leaves_half_a_call(std::unique_ptr<Subject> inner) {
  return std::make_unique<HalfACall>(std::move(inner));
}
std::unique_ptr<Subject> accepts_invalid_map(std::unique_ptr<Subject> inner) {
  return std::make_unique<AcceptingLoader>(std::move(inner), "reads the keys of layer");
}
std::unique_ptr<Subject> accepts_all_layers_shared(std::unique_ptr<Subject> inner) {
  return std::make_unique<AcceptingLoader>(std::move(inner), "layers are shared");
}
std::unique_ptr<Subject> dead_tensors_required(std::unique_ptr<Subject> inner) {
  return std::make_unique<DeadTensorsRequired>(std::move(inner));
}
std::unique_ptr<Subject> prefix_unknown(std::unique_ptr<Subject> inner) {
  return std::make_unique<PrefixUnknown>(std::move(inner));
}
std::unique_ptr<Subject> one_width_refused(std::unique_ptr<Subject> inner) {
  return std::make_unique<OneWidthRefused>(std::move(inner));
}
std::unique_ptr<Subject> consumers_hold_caches(std::unique_ptr<Subject> inner) {
  return std::make_unique<ConsumersHoldCaches>(std::move(inner));
}
std::unique_ptr<Subject> windows_reserve_capacity(std::unique_ptr<Subject> inner) {
  return std::make_unique<WindowsReserveCapacity>(std::move(inner));
}
std::unique_ptr<Subject> report_forgets_rewind(std::unique_ptr<Subject> inner) {
  return std::make_unique<ReportForgetsRewind>(std::move(inner));
}

}  // namespace kvconform
