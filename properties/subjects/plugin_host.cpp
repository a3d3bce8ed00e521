// The process that a plugin runs in: loads a shared library with the interface of
// properties/plugin.h and answers the subject protocol for it on the standard streams. Judges
// nothing and checks nothing for the plugin; what the library does to this process is its verdict.
//
//   plugin_host ./my_engine.so
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "properties/plugin.h"

namespace {

using nlohmann::json;

struct Refused {
  int status;
  std::string message;
};

struct Reply {
  json fields = json::object();
  std::string payload;
};

struct Model {
  void* handle = nullptr;
  std::int32_t vocab = 0, layers = 0;
};

struct Session {
  void* handle = nullptr;
  int model = 0;
  std::int32_t batch = 0;
};

/// Room for one message of the plugin, and the exception for a status that is not KV_OK.
class Outcome {
 public:
  kv_message* room() { return &message_; }
  void check(int status) const {
    if (status != KV_OK) throw Refused{status, text_};
  }

 private:
  char text_[1024] = "";
  kv_message message_{text_, sizeof text_};
};

/// Token rows as the interface wants them.
class Tokens {
 public:
  explicit Tokens(const json& rows) {
    for (const json& row : rows) {
      counts_.push_back(static_cast<std::int32_t>(row.size()));
      for (std::int32_t id : row) ids_.push_back(id);
    }
    view_ = {static_cast<std::int32_t>(counts_.size()), counts_.data(), ids_.data()};
  }
  const kv_tokens* view() const { return &view_; }
  std::size_t positions() const { return ids_.size(); }

 private:
  std::vector<std::int32_t> counts_, ids_;
  kv_tokens view_{};
};

/// Collects the arrays of a trace behind the logits.
struct Collected {
  json names = json::array();
  std::string values;

  static void add(void* context, const char* name, const float* values, const std::int64_t* shape,
                  std::int32_t rank) {
    auto& self = *static_cast<Collected*>(context);
    std::int64_t count = 1;
    json sizes = json::array();
    for (std::int32_t i = 0; i < rank; ++i) {
      count *= shape[i];
      sizes.push_back(shape[i]);
    }
    self.names.push_back({{"name", name}, {"shape", sizes}});
    self.values.append(reinterpret_cast<const char*>(values),
                       static_cast<std::size_t>(count) * sizeof *values);
  }
};

json words(const char* text) {
  json list = json::array();
  std::istringstream stream(text);
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

std::vector<std::int32_t> numbers(const json& list) {
  return list.get<std::vector<std::int32_t>>();
}

class Host {
 public:
  explicit Host(const kv_plugin& plugin) : plugin_(plugin) {}

  Reply answer(const json& r) {
    const std::string name = r.at("request");
    if (name == "hello") return {hello(), ""};
    if (name == "load") return {load(r), ""};
    if (name == "score") return score(r);
    if (name == "open") return {open(r), ""};
    if (name == "extend") return extend(r);
    if (name == "fork") return {fork(r), ""};
    if (name == "restore") return {restore(r), ""};
    if (name == "cache") return {cache(r), ""};
    if (name == "rewind") rewind(r);
    if (name == "reorder") reorder(r);
    if (name == "save") save(r);
    if (name == "close") close(r.at("session"));
    if (name == "unload") unload(r.at("model"));
    return {};
  }

 private:
  template <class F>
  static F offered(F function, const char* name) {
    if (function == nullptr)
      throw Refused{KV_UNSUPPORTED, std::string("the plugin has no ") + name};
    return function;
  }

  Model& model(const json& r) { return at(models_, r.at("model"), "model"); }
  Session& session(const json& r) { return at(sessions_, r.at("session"), "session"); }

  template <class T>
  static T& at(std::map<int, T>& where, int id, const char* what) {
    const auto found = where.find(id);
    if (found == where.end())
      throw Refused{KV_INVALID, "there is no " + std::string(what) + " " + std::to_string(id)};
    return found->second;
  }

  json hello() const {
    return {{"name", plugin_.name},
            {"version", plugin_.release},
            {"families", words(plugin_.families)},
            {"dtype", plugin_.dtype},
            {"capabilities", words(plugin_.capabilities)},
            {"margin", plugin_.margin},
            {"granularity", plugin_.granularity}};
  }

  json load(const json& r) {
    Model made;
    Outcome outcome;
    outcome.check(offered(plugin_.load, "load")(
        r.at("config").dump().c_str(), r.at("weights").get<std::string>().c_str(), &made.handle,
        &made.vocab, &made.layers, outcome.room()));
    models_[++next_] = made;
    return {{"model", next_}};
  }

  void unload(int id) {
    const Model gone = at(models_, id, "model");
    for (auto s = sessions_.begin(); s != sessions_.end();) {
      if (s->second.model != id) {
        ++s;
        continue;
      }
      if (plugin_.close != nullptr) plugin_.close(s->second.handle);
      s = sessions_.erase(s);
    }
    models_.erase(id);
    if (plugin_.unload != nullptr) plugin_.unload(gone.handle);
  }

  template <class Function>
  Reply computed(Function function, void* handle, int vocab, const json& r) {
    const Tokens tokens(r.at("tokens"));
    std::vector<float> logits(tokens.positions() * static_cast<std::size_t>(vocab));
    Collected trace;
    const bool wanted = r.value("trace", false);
    kv_output output{logits.data(), wanted ? Collected::add : nullptr, &trace};
    Outcome outcome;
    outcome.check(function(handle, tokens.view(), &output, outcome.room()));
    Reply reply;
    if (!logits.empty())
      reply.payload.assign(reinterpret_cast<const char*>(logits.data()),
                           logits.size() * sizeof(float));
    reply.payload += trace.values;
    if (wanted) reply.fields["trace"] = trace.names;
    return reply;
  }

  Reply score(const json& r) {
    const Model& m = model(r);
    return computed(offered(plugin_.score, "score"), m.handle, m.vocab, r);
  }

  Reply extend(const json& r) {
    const Session& s = session(r);
    return computed(offered(plugin_.extend, "extend"), s.handle,
                    at(models_, s.model, "model").vocab, r);
  }

  json add(const Session& made) {
    sessions_[++next_] = made;
    return {{"session", next_}};
  }

  json open(const json& r) {
    Session made{nullptr, r.at("model"), r.at("batch")};
    Outcome outcome;
    outcome.check(offered(plugin_.open, "open")(model(r).handle, made.batch, r.at("capacity"),
                                                r.value("start", 0), &made.handle, outcome.room()));
    return add(made);
  }

  json fork(const json& r) {
    Session made = session(r);
    Outcome outcome;
    outcome.check(offered(plugin_.fork, "fork")(session(r).handle, &made.handle, outcome.room()));
    return add(made);
  }

  json restore(const json& r) {
    Session made{nullptr, r.at("model"), 0};
    Outcome outcome;
    outcome.check(offered(plugin_.restore, "restore")(model(r).handle,
                                                      r.at("path").get<std::string>().c_str(),
                                                      &made.handle, &made.batch, outcome.room()));
    return add(made);
  }

  void rewind(const json& r) {
    const std::vector<std::int32_t> lengths = numbers(r.at("lengths"));
    Outcome outcome;
    outcome.check(offered(plugin_.rewind, "rewind")(session(r).handle, lengths.data(),
                                                    static_cast<std::int32_t>(lengths.size()),
                                                    outcome.room()));
  }

  void reorder(const json& r) {
    const std::vector<std::int32_t> rows = numbers(r.at("rows"));
    Outcome outcome;
    outcome.check(offered(plugin_.reorder, "reorder")(
        session(r).handle, rows.data(), static_cast<std::int32_t>(rows.size()), outcome.room()));
  }

  void save(const json& r) {
    Outcome outcome;
    outcome.check(offered(plugin_.save, "save")(
        session(r).handle, r.at("path").get<std::string>().c_str(), outcome.room()));
  }

  json cache(const json& r) {
    const Session& s = session(r);
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(s.batch));
    std::vector<kv_cache_layer> layers(
        static_cast<std::size_t>(at(models_, s.model, "model").layers));
    Outcome outcome;
    outcome.check(
        offered(plugin_.cache, "cache")(s.handle, lengths.data(), layers.data(), outcome.room()));
    json list = json::array();
    for (const kv_cache_layer& layer : layers) {
      list.push_back({{"layer", list.size()},
                      {"role", layer.role},
                      {"owner", layer.owner},
                      {"positions", layer.positions},
                      {"bytes", layer.bytes}});
    }
    return {{"lengths", lengths}, {"layers", list}};
  }

  void close(int id) {
    const Session gone = at(sessions_, id, "session");
    sessions_.erase(id);
    if (plugin_.close != nullptr) plugin_.close(gone.handle);
  }

  const kv_plugin& plugin_;
  int next_ = 0;
  std::map<int, Model> models_;
  std::map<int, Session> sessions_;
};

const char* kind_of(int status) {
  return status == KV_UNSUPPORTED ? "unsupported" : status == KV_INVALID ? "invalid" : "failed";
}

json line_of(Host& host, const json& request, std::string& payload) {
  try {
    Reply reply = host.answer(request);
    json line = {{"ok", true}};
    line.update(reply.fields);
    if (!reply.payload.empty()) line["payload"] = reply.payload.size();
    payload = std::move(reply.payload);
    return line;
  } catch (const Refused& e) {
    return {{"error", {{"kind", kind_of(e.status)}, {"message", e.message}}}};
  }
}

int serve(const kv_plugin& plugin, std::FILE* out) {
  Host host(plugin);
  for (std::string text; std::getline(std::cin, text);) {
    const json request = json::parse(text);
    std::string payload;
    const std::string line =
        line_of(host, request, payload).dump(-1, ' ', false, json::error_handler_t::replace);
    std::fwrite(line.data(), 1, line.size(), out);
    std::fputc('\n', out);
    std::fwrite(payload.data(), 1, payload.size(), out);
    std::fflush(out);
    if (request.at("request") == "quit") return 0;
  }
  return 0;
}

int fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 2;
}

/// What the plugin prints is no message: standard output becomes standard error for it.
std::FILE* own_output() {
  std::FILE* out = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("plugin_host FILE.so");
  std::FILE* out = own_output();
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  const auto entry = reinterpret_cast<const kv_plugin* (*)()>(dlsym(library, "kvconform_plugin"));
  if (entry == nullptr) return fail(std::string(argv[1]) + " exports no kvconform_plugin()");
  const kv_plugin* plugin = entry();
  if (plugin == nullptr || plugin->version != KVCONFORM_PLUGIN_VERSION) {
    return fail(std::string(argv[1]) + " is made for version " +
                std::to_string(plugin == nullptr ? 0 : plugin->version) +
                " of plugin.h, this is version " + std::to_string(KVCONFORM_PLUGIN_VERSION));
  }
  return serve(*plugin, out);
}
