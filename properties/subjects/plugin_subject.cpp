// From the calls of a subject to those of plugin.h. Checks nothing for the plugin but what C leaves
// open: which handle belongs to which model, and how much room a result needs.
#include "properties/subjects/plugin_subject.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "properties/plugin.h"

namespace kvconform {
namespace {

/// Room for one message of the plugin, and the exception for a status that is not KV_OK.
class Outcome {
 public:
  kv_message* room() { return &message_; }

  void check(int status) const {
    using Kind = SubjectRefusal::Kind;
    if (status == KV_UNSUPPORTED) throw SubjectRefusal(Kind::unsupported, text_);
    if (status == KV_INVALID) throw SubjectRefusal(Kind::invalid, text_);
    if (status != KV_OK) throw SubjectBroken(text_);
  }

 private:
  char text_[1024] = "";
  kv_message message_{text_, sizeof text_};
};

/// Token rows as the interface wants them.
class FlatTokens {
 public:
  explicit FlatTokens(const TokenRows& rows) {
    for (const auto& row : rows) {
      counts_.push_back(static_cast<std::int32_t>(row.size()));
      ids_.insert(ids_.end(), row.begin(), row.end());
    }
    view_ = {static_cast<std::int32_t>(counts_.size()), counts_.data(), ids_.data()};
  }
  const kv_tokens* view() const { return &view_; }
  std::size_t positions() const { return ids_.size(); }

 private:
  std::vector<std::int32_t> counts_, ids_;
  kv_tokens view_{};
};

void add_to_trace(void* context, const char* name, const float* values, const std::int64_t* shape,
                  std::int32_t rank) {
  TraceArray array{name, {shape, shape + rank}, {}};
  std::int64_t count = 1;
  for (const std::int64_t size : array.shape) count *= size;
  array.values.assign(values, values + count);
  static_cast<Trace*>(context)->push_back(std::move(array));
}

std::set<std::string> words(const char* text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

SubjectInfo info_of(const kv_plugin& plugin) {
  SubjectInfo info{plugin.name, plugin.release, words(plugin.families), plugin.dtype,
                   words(plugin.capabilities)};
  info.margin = plugin.margin;
  info.granularity = plugin.granularity;
  return info;
}

class PluginSubject : public Subject {
 public:
  explicit PluginSubject(const kv_plugin& plugin) : plugin_(plugin), info_(info_of(plugin)) {}

  const SubjectInfo& info() const override { return info_; }

  ModelId load(const ModelSource& source) override {
    Model made;
    call(plugin_.load, "load", source.text_config().dump().c_str(), source.weights_path().c_str(),
         &made.handle, &made.vocab, &made.layers);
    models_[++next_] = made;
    return next_;
  }

  void unload(ModelId id) override {
    const Model gone = model_at(id);
    for (auto s = sessions_.begin(); s != sessions_.end();) {
      const auto session = s++;
      if (session->second.model == id) close(session->first);
    }
    models_.erase(id);
    if (plugin_.unload != nullptr) plugin_.unload(gone.handle);
  }

  Output score(ModelId id, const TokenRows& tokens, bool trace) override {
    const Model& model = model_at(id);
    return computed(plugin_.score, "score", model.handle, model, tokens, trace);
  }

  SessionId open(ModelId id, int batch, int capacity, int start) override {
    Session made{nullptr, id, batch};
    call(plugin_.open, "open", model_at(id).handle, batch, capacity, start, &made.handle);
    return add(made);
  }

  Output extend(SessionId id, const TokenRows& tokens, bool trace) override {
    const Session& session = session_at(id);
    return computed(plugin_.extend, "extend", session.handle, model_at(session.model), tokens,
                    trace);
  }

  void rewind(SessionId id, const std::vector<int>& lengths) override {
    call(plugin_.rewind, "rewind", session_at(id).handle, lengths.data(),
         static_cast<std::int32_t>(lengths.size()));
  }

  SessionId fork(SessionId id) override {
    Session made = session_at(id);
    call(plugin_.fork, "fork", session_at(id).handle, &made.handle);
    return add(made);
  }

  void reorder(SessionId id, const std::vector<int>& rows) override {
    call(plugin_.reorder, "reorder", session_at(id).handle, rows.data(),
         static_cast<std::int32_t>(rows.size()));
  }

  void save(SessionId id, const std::filesystem::path& file) override {
    call(plugin_.save, "save", session_at(id).handle, file.c_str());
  }

  SessionId restore(ModelId id, const std::filesystem::path& file) override {
    Session made{nullptr, id, 0};
    call(plugin_.restore, "restore", model_at(id).handle, file.c_str(), &made.handle, &made.batch);
    return add(made);
  }

  CacheReport cache(SessionId id) override {
    const Session& session = session_at(id);
    std::vector<kv_cache_layer> layers(static_cast<std::size_t>(model_at(session.model).layers));
    CacheReport report;
    report.lengths.resize(static_cast<std::size_t>(session.batch));
    call(plugin_.cache, "cache", session.handle, report.lengths.data(), layers.data());
    for (const kv_cache_layer& layer : layers) {
      const int index = static_cast<int>(report.layers.size());
      report.layers.push_back({index, layer.role, layer.owner, layer.positions, layer.bytes});
    }
    return report;
  }

  void close(SessionId id) override {
    const Session gone = session_at(id);
    sessions_.erase(id);
    if (plugin_.close != nullptr) plugin_.close(gone.handle);
  }

 private:
  struct Model {
    void* handle = nullptr;
    std::int32_t vocab = 0, layers = 0;
  };
  struct Session {
    void* handle = nullptr;
    ModelId model = 0;
    std::int32_t batch = 0;
  };

  template <class Function, class... Arguments>
  static void call(Function function, const char* name, Arguments... arguments) {
    if (function == nullptr)
      throw SubjectRefusal(SubjectRefusal::Kind::unsupported,
                           fmt::format("the plugin has no {}", name));
    Outcome outcome;
    outcome.check(function(arguments..., outcome.room()));
  }

  template <class Function>
  static Output computed(Function function, const char* name, void* handle, const Model& model,
                         const TokenRows& rows, bool trace) {
    const FlatTokens tokens(rows);
    std::vector<float> logits(tokens.positions() * static_cast<std::size_t>(model.vocab));
    Output output;
    kv_output room{logits.data(), trace ? add_to_trace : nullptr, &output.trace};
    call(function, name, handle, tokens.view(), &room);
    output.logits = {
        static_cast<int>(tokens.positions()), model.vocab, {logits.begin(), logits.end()}};
    return output;
  }

  template <class T>
  static T& at(std::map<std::int64_t, T>& where, std::int64_t id, const char* what) {
    const auto found = where.find(id);
    if (found == where.end())
      throw SubjectRefusal(SubjectRefusal::Kind::invalid,
                           fmt::format("there is no {} {}", what, id));
    return found->second;
  }

  Model& model_at(ModelId id) { return at(models_, id, "model"); }
  Session& session_at(SessionId id) { return at(sessions_, id, "session"); }

  SessionId add(const Session& made) {
    sessions_[++next_] = made;
    return next_;
  }

  const kv_plugin& plugin_;
  SubjectInfo info_;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Model> models_;
  std::map<std::int64_t, Session> sessions_;
};

}  // namespace

std::unique_ptr<Subject> load_plugin(const std::filesystem::path& library) {
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<const kv_plugin* (*)()>(dlsym(loaded, "kvconform_plugin"));
  if (entry == nullptr)
    throw std::runtime_error(library.string() + " exports no kvconform_plugin()");
  const kv_plugin* plugin = entry();
  const std::uint32_t version = plugin == nullptr ? 0 : plugin->version;
  if (version != KVCONFORM_PLUGIN_VERSION) {
    throw std::runtime_error(
        fmt::format("{} is made for version {} of plugin.h, this is version {}", library.string(),
                    version, KVCONFORM_PLUGIN_VERSION));
  }
  return std::make_unique<PluginSubject>(*plugin);
}

}  // namespace kvconform
