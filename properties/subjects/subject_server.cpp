// A fixture of the tests: any subject of this program behind the subject protocol, well-mannered or
// with one bad manner. Not shipped. A new manner is a line in `manners()`.
//
//   subject_server SUBJECT [MANNER] [ARGUMENT]
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "properties/subject_registry.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

class FileSource : public ModelSource {
 public:
  FileSource(const json& config, std::filesystem::path weights)
      : checkpoint_(Checkpoint::open(config, weights)), weights_(std::move(weights)) {}
  std::shared_ptr<const Checkpoint> checkpoint() const override { return checkpoint_; }
  std::filesystem::path weights_path() const override { return weights_; }

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::filesystem::path weights_;
};

struct Reply {
  json fields = json::object();
  std::string payload;
};

/// Where a manner may step in.
struct Moment {
  std::string request;
  int loads = 0;  ///< models loaded so far
  Reply& reply;
  std::string argument;

  bool computes() const { return request == "score" || request == "extend"; }
};

void append_numbers(std::string& payload, const std::vector<double>& values) {
  for (double value : values) {
    const float narrow = static_cast<float>(value);
    char bytes[sizeof narrow];
    std::memcpy(bytes, &narrow, sizeof narrow);  // tests run on little-endian machines
    payload.append(bytes, sizeof bytes);
  }
}

Reply computed(const Output& output, bool trace) {
  Reply reply;
  append_numbers(reply.payload, output.logits.values);
  if (!trace) return reply;
  reply.fields["trace"] = json::array();
  for (const TraceArray& array : output.trace) {
    append_numbers(reply.payload, array.values);
    reply.fields["trace"].push_back({{"name", array.name}, {"shape", array.shape}});
  }
  return reply;
}

json cache_fields(const CacheReport& report) {
  json layers = json::array();
  for (const auto& layer : report.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"role", layer.role},
                      {"owner", layer.owner},
                      {"positions", layer.positions},
                      {"bytes", layer.bytes}});
  }
  return {{"lengths", report.lengths}, {"layers", layers}, {"replays", report.replays}};
}

json hello_fields(const SubjectInfo& info) {
  return {{"name", info.name},
          {"version", info.version},
          {"families", info.families},
          {"dtype", info.dtype},
          {"margin", info.margin},
          {"granularity", info.granularity},
          {"capabilities", info.capabilities}};
}

class Server {
 public:
  explicit Server(const std::string& name) : subject_(make_subject(name)) {}

  Reply answer(const json& r) {
    const std::string name = r["request"];
    const auto session = [&] { return r["session"].get<Subject::SessionId>(); };
    const auto model = [&] { return r["model"].get<Subject::ModelId>(); };
    const bool trace = r.value("trace", false);
    if (name == "hello") return {hello_fields(subject_->info()), ""};
    if (name == "load") {
      const FileSource source(r["config"], r["weights"].get<std::string>());
      ++loads_;
      return {{{"model", subject_->load(source)}}, ""};
    }
    if (name == "score") return computed(subject_->score(model(), r["tokens"], trace), trace);
    if (name == "extend") return computed(subject_->extend(session(), r["tokens"], trace), trace);
    if (name == "open") {
      return {
          {{"session", subject_->open(model(), r["batch"], r["capacity"], r.value("start", 0))}},
          ""};
    }
    if (name == "fork") return {{{"session", subject_->fork(session())}}, ""};
    if (name == "restore") {
      return {{{"session", subject_->restore(model(), r["path"].get<std::string>())}}, ""};
    }
    if (name == "cache") return {cache_fields(subject_->cache(session())), ""};
    if (name == "unload") subject_->unload(model());
    if (name == "rewind") subject_->rewind(session(), r["lengths"]);
    if (name == "reorder") subject_->reorder(session(), r["rows"]);
    if (name == "save") subject_->save(session(), r["path"].get<std::string>());
    if (name == "close") subject_->close(session());
    return {};
  }

  int loads() const { return loads_; }

 private:
  std::unique_ptr<Subject> subject_;
  int loads_ = 0;
};

void send(const Reply& reply) {
  json line = {{"ok", true}};
  if (!reply.payload.empty()) line["payload"] = reply.payload.size();
  line.update(reply.fields);
  if (line.contains("error")) line.erase("ok");
  std::cout << line.dump() << "\n" << reply.payload << std::flush;
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

using Manner = std::function<void(const Moment&)>;

void fill_with_nan(std::string& payload) {
  const float nan = std::nanf("");
  for (std::size_t i = 0; i + sizeof nan <= payload.size(); i += sizeof nan) {
    std::memcpy(payload.data() + i, &nan, sizeof nan);
  }
}

void refuse(Reply& reply, const char* kind) {
  reply = {{{"error", {{"kind", kind}, {"message", "on purpose"}}}}, ""};
}

const std::map<std::string, Manner>& manners() {
  static const std::map<std::string, Manner> all = {
      {"healthy", [](const Moment&) {}},
      {"crash-in-every-third-case",
       [](const Moment& at) {
         if (at.request == "extend" && at.loads == 3) abort();
       }},
      {"hang",
       [](const Moment& at) {
         if (at.computes()) sleep_for_ever();
       }},
      {"hang-ignoring-sigterm",
       [](const Moment& at) {
         signal(SIGTERM, SIG_IGN);
         if (at.computes()) sleep_for_ever();
       }},
      {"half-a-message",
       [](const Moment& at) {
         if (!at.computes()) return;
         std::cout << "{\"ok\": tr" << std::flush;
         sleep_for_ever();
       }},
      {"half-a-payload",
       [](const Moment& at) {
         if (!at.computes()) return;
         std::cout << json({{"ok", true}, {"payload", at.reply.payload.size()}}) << "\n12"
                   << std::flush;
         _exit(7);
       }},
      {"payload-too-large",
       [](const Moment& at) {
         if (at.computes()) at.reply.fields["payload"] = 99999999;
       }},
      {"payload-too-small",
       [](const Moment& at) {
         if (at.computes()) at.reply.payload.resize(at.reply.payload.size() - 4);
       }},
      {"more-than-a-reply",
       [](const Moment& at) {
         if (at.computes())
           at.reply.payload += "{}", at.reply.fields["payload"] = at.reply.payload.size() - 2;
       }},
      {"close-stdout",
       [](const Moment& at) {
         if (!at.computes()) return;
         close(STDOUT_FILENO);
         sleep_for_ever();
       }},
      {"leave-a-grandchild",
       [](const Moment& at) {
         if (!at.computes()) return;
         if (fork() == 0) sleep_for_ever();  // holds the pipes
         _exit(3);
       }},
      {"flood-standard-error",
       [](const Moment& at) {
         for (int i = 0; i < 100000; ++i) std::cerr << "noise of the engine, line " << i << "\n";
         if (at.computes()) _exit(9);
       }},
      {"nan", [](const Moment& at) { fill_with_nan(at.reply.payload); }},
      {"error-failed",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "failed");
       }},
      {"error-unsupported",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "unsupported");
       }},
      {"error-invalid",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "invalid");
       }},
      {"error-of-no-kind",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "sad");
       }},
      {"no-model",
       [](const Moment& at) {
         if (at.request == "load") at.reply.fields.erase("model");
       }},
      {"model-is-a-list",
       [](const Moment& at) {
         if (at.request == "load") at.reply.fields["model"] = {1};
       }},
      {"hello-fails-once",
       [](const Moment& at) {
         if (at.request == "hello" && rmdir(at.argument.c_str()) == 0) _exit(1);
       }},
      {"dead-after-one-case",
       [](const Moment& at) {  // the argument is a folder that the first extend removes
         if (at.request == "hello" && access(at.argument.c_str(), F_OK) != 0) _exit(1);
         if (at.computes() && rmdir(at.argument.c_str()) == 0) _exit(2);
       }},
  };
  return all;
}

int serve(const std::string& name, const Manner& manner, const std::string& argument) {
  Server server(name);
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    Reply reply;
    try {
      reply = server.answer(request);
    } catch (const SubjectRefusal& e) {
      const bool invalid = e.kind == SubjectRefusal::Kind::invalid;
      reply.fields["error"] = {{"kind", invalid ? "invalid" : "unsupported"},
                               {"message", e.what()}};
    } catch (const Error& e) {
      reply.fields["error"] = {{"kind", "invalid"}, {"message", e.what()}};
    }
    manner({request["request"], server.loads(), reply, argument});
    send(reply);
    if (request["request"] == "quit") return 0;
  }
  return 0;
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return kvconform::serve(argv[1], kvconform::manners().at(argc > 2 ? argv[2] : "healthy"),
                          argc > 3 ? argv[3] : "");
}
