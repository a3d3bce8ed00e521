// From requests to calls, and from outputs to bytes.
#include "properties/subjects/protocol_server.h"

#include <fmt/format.h>

#include <bit>
#include <functional>
#include <istream>
#include <map>
#include <new>
#include <ostream>

#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

/// Read only by subjects that ask for a checkpoint of ours: a plugin reads, and refuses, for
/// itself.
class NamedFiles : public ModelSource {
 public:
  NamedFiles(const json& config, std::filesystem::path weights)
      : config_(config), weights_(std::move(weights)) {}
  std::shared_ptr<const Checkpoint> checkpoint() const override {
    if (!checkpoint_) checkpoint_ = Checkpoint::open(config_, weights_);
    return checkpoint_;
  }
  std::filesystem::path weights_path() const override { return weights_; }
  json text_config() const override { return config_; }

 private:
  json config_;
  std::filesystem::path weights_;
  mutable std::shared_ptr<const Checkpoint> checkpoint_;
};

void append_numbers(std::string& payload, const std::vector<double>& values) {
  payload.reserve(payload.size() + 4 * values.size());
  for (double value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    for (int shift = 0; shift < 32; shift += 8) payload += static_cast<char>(bits >> shift & 0xff);
  }
}

Reply reply_with(const Output& output, bool trace) {
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

json fields_of(const CacheReport& report) {
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

json fields_of(const SubjectInfo& info) {
  return {{"name", info.name},
          {"version", info.version},
          {"families", info.families},
          {"dtype", info.dtype},
          {"margin", info.margin},
          {"granularity", info.granularity},
          {"bit_stable", info.bit_stable},
          {"capabilities", info.capabilities}};
}

Reply error_reply(const char* kind, const std::string& message) {
  return {{{"error", {{"kind", kind}, {"message", message}}}}, ""};
}

}  // namespace

Reply ProtocolServer::answer(const std::string& line) {
  last_request_.clear();
  try {
    const json request = json::parse(line);
    last_request_ = request.at("request").get<std::string>();
    return answer_request(request);
  } catch (const json::exception& e) {
    return error_reply("invalid", fmt::format("the request cannot be read: {}", e.what()));
  } catch (const SubjectRefusal& e) {
    const bool invalid = e.kind == SubjectRefusal::Kind::invalid;
    return error_reply(invalid ? "invalid" : "unsupported", e.what());
  } catch (const HarnessError& e) {
    return error_reply("failed", e.what());
  } catch (const Error& e) {
    return error_reply("invalid", e.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return error_reply("failed", e.what());
  }
}

Reply ProtocolServer::answer_request(const json& r) {
  const auto session = [&] { return r.at("session").get<Subject::SessionId>(); };
  const auto model = [&] { return r.at("model").get<Subject::ModelId>(); };
  const auto path = [&] { return std::filesystem::path(r.at("path").get<std::string>()); };
  const auto id = [](const char* name, std::int64_t value) { return Reply{{{name, value}}, ""}; };
  const auto load = [&] {
    const NamedFiles files(r.at("config"), r.at("weights").get<std::string>());
    const Subject::ModelId model_id = subject_->load(files);
    ++loads_;
    return id("model", model_id);
  };
  const auto compute = [&](bool score) {
    const TokenRows tokens = r.at("tokens");
    const bool trace = r.value("trace", false);
    return reply_with(score ? subject_->score(model(), tokens, trace)
                            : subject_->extend(session(), tokens, trace),
                      trace);
  };
  const auto open = [&] {
    const int batch = r.at("batch"), capacity = r.at("capacity");
    return id("session", subject_->open(model(), batch, capacity, r.value("start", 0)));
  };
  const auto done = [](const auto& call) {
    call();
    return Reply{};
  };

  const std::map<std::string, std::function<Reply()>> requests = {
      {"hello",
       [&] {
         return Reply{fields_of(subject_->info()), ""};
       }},
      {"load", load},
      {"unload", [&] { return done([&] { subject_->unload(model()); }); }},
      {"score", [&] { return compute(true); }},
      {"open", open},
      {"extend", [&] { return compute(false); }},
      {"rewind", [&] { return done([&] { subject_->rewind(session(), r.at("lengths")); }); }},
      {"fork", [&] { return id("session", subject_->fork(session())); }},
      {"reorder", [&] { return done([&] { subject_->reorder(session(), r.at("rows")); }); }},
      {"save", [&] { return done([&] { subject_->save(session(), path()); }); }},
      {"restore", [&] { return id("session", subject_->restore(model(), path())); }},
      {"cache",
       [&] {
         return Reply{fields_of(subject_->cache(session())), ""};
       }},
      {"close", [&] { return done([&] { subject_->close(session()); }); }},
      {"quit", [&] { return Reply{}; }}};
  const auto found = requests.find(last_request_);
  if (found == requests.end())
    return error_reply("unsupported", fmt::format("there is no request \"{}\"", last_request_));
  return found->second();
}

void send(std::ostream& out, const Reply& reply) {
  json line = reply.fields;
  if (!line.contains("error")) line["ok"] = true;
  if (!reply.payload.empty() && !line.contains("payload")) line["payload"] = reply.payload.size();
  // Messages may quote what was sent, which need not be UTF-8.
  out << line.dump(-1, ' ', false, json::error_handler_t::replace) << "\n" << reply.payload;
  out.flush();
}

void serve(std::unique_ptr<Subject> subject, std::istream& in, std::ostream& out) {
  ProtocolServer server(std::move(subject));
  for (std::string line; std::getline(in, line);) {
    send(out, server.answer(line));
    if (server.last_request() == "quit") return;
  }
}

}  // namespace kvconform
