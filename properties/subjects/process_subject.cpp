// One request, one reply, one process at a time.
#include "properties/subjects/process_subject.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "properties/subjects/last_words.h"
#include "properties/subjects/protocol_messages.h"
#include "reference/counted.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr std::size_t kLastWordsShown = 1000;
constexpr std::size_t kSurplusShown = 100;
constexpr double kLongestTimeout = 1e6;  // seconds; keeps deadlines within the clock's range
constexpr double kPatienceForQuit = 1;   // seconds, for the reply and again for the exit

/// How far an answer had come: an engine that forgets a line's end, or to flush, looks like a hang.
std::string words_arrived(const ChildTimeout& late) {
  if (late.payload_due > 0)
    return fmt::format("; {} of {} had arrived", late.payload,
                       counted(late.payload_due, "payload byte"));
  if (late.arrived.empty()) return "";
  return fmt::format("; {} without a line end had arrived: \"{}\"",
                     counted(late.arrived.size(), "byte"), printable(late.arrived, kSurplusShown));
}

json id_of(const std::string& id) {
  return json::parse(id);
}

/// What the config says, or the default of its family. A model that should have been refused has no
/// checkpoint to ask.
int size_in(const json& config, const char* name, const ModelSource& source,
            int ModelConfig::*size) {
  const auto found = config.find(name);
  if (found != config.end() && found->is_number_integer()) return found->get<int>();
  return source.checkpoint()->config().*size;
}

std::size_t positions_of(const TokenRows& tokens) {
  std::size_t positions = 0;
  for (const auto& row : tokens) positions += row.size();
  return positions;
}

}  // namespace

template <class Body>
auto ProcessSubject::guarded(const std::string& request, Body body) {
  try {
    return body();
  } catch (const ChildTimeout& e) {
    fail(fmt::format("the process {} when asked for {} (limit {} s){}", e.what(), request,
                     timeout_of(request), words_arrived(e)));
  } catch (const ChildFailure& e) {
    fail(fmt::format("the process {} when asked for {}", e.what(), request));
  } catch (const ProtocolViolation& e) {
    fail(fmt::format("its reply to {} {}", request, e.what()));
  }
}

ProcessSubject::ProcessSubject(std::string command, const SubjectOptions& options)
    : command_(std::move(command)), options_(options) {
  options_.timeout = std::min(options_.timeout, kLongestTimeout);
}

ProcessSubject::~ProcessSubject() {
  if (!child_) return;
  try {
    options_.timeout = std::min(options_.timeout, kPatienceForQuit);
    ask({{"request", "quit"}});
    child_->wait_for_exit(std::chrono::milliseconds(static_cast<int>(1000 * kPatienceForQuit)));
  } catch (const std::exception&) {
    // Every case has its verdict; the process is killed now, however it says goodbye.
  }
}

const SubjectInfo& ProcessSubject::info() const {
  // The interface calls this a look; here the process must be asked once.
  if (!known_) const_cast<ProcessSubject*>(this)->start();
  return info_;
}

void ProcessSubject::start() {
  if (!unusable_.empty()) throw SubjectUnusable(unusable_);
  if (child_) return;
  for (int attempt = 1;; ++attempt) {
    try {
      return start_once();
    } catch (const SubjectBroken& e) {
      if (attempt < 2) continue;
      unusable_ = fmt::format("twice no proper answer to hello: {}", e.what());
      throw SubjectUnusable(unusable_);
    }
  }
}

void ProcessSubject::start_once() {
  ++life_;
  child_ = std::make_unique<ChildProcess>(command_, options_.stop);
  try {
    const json reply = ask({{"request", "hello"}, {"protocol", 1}});
    const SubjectInfo info = guarded("hello", [&] { return parse_hello(reply); });
    if (!known_) info_ = info;
    known_ = true;
  } catch (const SubjectRefusal& e) {
    fail(fmt::format("the process refused hello: {}", e.what()));
  }
}

Subject::ModelId ProcessSubject::load(const ModelSource& source) {
  start();
  const json config = source.text_config();
  const json reply =
      ask({{"request", "load"}, {"config", config}, {"weights", source.weights_path().string()}});
  LoadedModel model;
  model.id = guarded("load", [&] { return parse_id(reply, "model"); });
  model.life = life_;
  model.vocab = size_in(config, "vocab_size", source, &ModelConfig::vocab_size);
  model.layers = size_in(config, "num_hidden_layers", source, &ModelConfig::num_layers);
  models_[++next_id_] = model;
  return next_id_;
}

void ProcessSubject::unload(ModelId model) {
  const LoadedModel gone = model_at(model);
  models_.erase(model);
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.model_id == model; });
  if (!child_ || gone.life != life_) return;
  try {
    ask({{"request", "unload"}, {"model", id_of(gone.id)}});
  } catch (const SubjectBroken& e) {
    broke_at_unload_ = e.what();
    throw;
  }
}

void ProcessSubject::end_case(std::chrono::milliseconds patience) {
  if (!broke_at_unload_.empty()) throw SubjectBroken(std::exchange(broke_at_unload_, ""));
  if (!child_ || !child_->says_more(patience)) return;
  fail("the process " + surplus_words() + " when its case was over");
}

/// Bytes that nobody asked for.
std::string ProcessSubject::surplus_words() const {
  const std::string bytes = child_->unread_bytes();
  return fmt::format("had written more than its last reply, {}: \"{}\"",
                     counted(bytes.size(), "byte"), printable(bytes, kSurplusShown));
}

Output ProcessSubject::score(ModelId model, const TokenRows& tokens, bool trace) {
  const LoadedModel& loaded = model_at(model);
  json request = {{"request", "score"}, {"model", id_of(loaded.id)}, {"tokens", tokens}};
  return ask_for_logits(request, tokens, loaded.vocab, trace);
}

Subject::SessionId ProcessSubject::open(ModelId model, int batch, int capacity, int first) {
  const LoadedModel& loaded = model_at(model);
  json request = {
      {"request", "open"}, {"model", id_of(loaded.id)}, {"batch", batch}, {"capacity", capacity}};
  if (first != 0) request["start"] = first;
  return add_session({"", model, loaded, batch}, ask(request));
}

Output ProcessSubject::extend(SessionId session, const TokenRows& tokens, bool trace) {
  const Session& s = session_at(session);
  json request = {{"request", "extend"}, {"session", id_of(s.id)}, {"tokens", tokens}};
  return ask_for_logits(request, tokens, s.model.vocab, trace);
}

void ProcessSubject::rewind(SessionId session, const std::vector<int>& lengths) {
  ask({{"request", "rewind"}, {"session", id_of(session_at(session).id)}, {"lengths", lengths}});
}

Subject::SessionId ProcessSubject::fork(SessionId session) {
  const Session& s = session_at(session);
  return add_session(s, ask({{"request", "fork"}, {"session", id_of(s.id)}}));
}

void ProcessSubject::reorder(SessionId session, const std::vector<int>& rows) {
  ask({{"request", "reorder"}, {"session", id_of(session_at(session).id)}, {"rows", rows}});
}

void ProcessSubject::save(SessionId session, const std::filesystem::path& file) {
  const Session& s = session_at(session);
  ask({{"request", "save"}, {"session", id_of(s.id)}, {"path", file.string()}});
  saved_batches_[file.string()] = s.batch;
}

Subject::SessionId ProcessSubject::restore(ModelId model, const std::filesystem::path& file) {
  const LoadedModel& loaded = model_at(model);
  const json reply =
      ask({{"request", "restore"}, {"model", id_of(loaded.id)}, {"path", file.string()}});
  const auto saved = saved_batches_.find(file.string());
  const int batch = saved == saved_batches_.end() ? -1 : saved->second;
  return add_session({"", model, loaded, batch}, reply);
}

CacheReport ProcessSubject::cache(SessionId session) {
  const Session s = session_at(session);
  const json reply = ask({{"request", "cache"}, {"session", id_of(s.id)}});
  return guarded("cache", [&] { return parse_cache(reply, s.batch, s.model.layers); });
}

void ProcessSubject::close(SessionId session) {
  const Session gone = session_at(session);
  sessions_.erase(session);
  ask({{"request", "close"}, {"session", id_of(gone.id)}});
}

auto ProcessSubject::model_at(ModelId model) const -> const LoadedModel& {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    throw SubjectRefusal(SubjectRefusal::Kind::invalid, fmt::format("there is no model {}", model));
  }
  return found->second;
}

auto ProcessSubject::session_at(SessionId session) const -> const Session& {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    throw SubjectRefusal(SubjectRefusal::Kind::invalid,
                         fmt::format("there is no session {}", session));
  }
  if (!child_ || found->second.model.life != life_) {
    throw SubjectBroken("the process that held the session is gone");
  }
  return found->second;
}

Subject::SessionId ProcessSubject::add_session(Session session, const json& reply) {
  session.id = guarded("a new session", [&] { return parse_id(reply, "session"); });
  sessions_[++next_id_] = std::move(session);
  return next_id_;
}

json ProcessSubject::ask(const json& request) {
  const std::string name = request["request"];
  const json reply = exchange(request);
  guarded(name, [&] { check_payload_size(reply, 0); });
  return reply;
}

Output ProcessSubject::ask_for_logits(const json& request, const TokenRows& tokens, int vocab,
                                      bool trace) {
  json traced = request;
  if (trace) traced["trace"] = true;
  const json reply = exchange(traced);
  return guarded(request["request"], [&] {
    const PayloadLayout layout =
        payload_layout(reply, static_cast<int>(positions_of(tokens)), vocab, trace);
    check_payload_size(reply, layout.bytes());
    return decode_payload(child_->read_bytes(static_cast<std::size_t>(layout.bytes()), deadline_),
                          layout);
  });
}

double ProcessSubject::timeout_of(const std::string& request) const {
  const bool longer = request == "hello" && options_.start_timeout > 0;
  return longer ? options_.start_timeout : options_.timeout;
}

/// Sends a request and returns the reply, except for its payload. Errors become exceptions.
json ProcessSubject::exchange(const json& request) {
  const std::string name = request["request"];
  if (!child_) throw SubjectBroken("the process is gone");
  const json reply = guarded(name, [&] {
    const bool first = name == "hello";  // what came before is read as its answer
    if (!first && child_->says_more(std::chrono::milliseconds(0)))
      throw ChildFailure(surplus_words());
    deadline_ =
        ChildProcess::Clock::now() + std::chrono::duration_cast<ChildProcess::Clock::duration>(
                                         std::chrono::duration<double>(timeout_of(name)));
    child_->write(request.dump() + "\n");
    json parsed = parse_reply(child_->read_line(kLongestLine, deadline_));
    if (!child_->all_written()) throw ChildFailure("answered before it had read the request");
    return parsed;
  });
  if (is_error(reply)) refuse_or_break(name, reply);
  return reply;
}

void ProcessSubject::refuse_or_break(const std::string& request, const json& reply) {
  const ErrorReply error = guarded(request, [&] {
    check_payload_size(reply, 0);
    return parse_error(reply);
  });
  if (error.kind == "failed") {
    fail(fmt::format("the process answered {} with \"failed\": {}", request, error.message));
  }
  throw SubjectRefusal(
      error.kind == "invalid" ? SubjectRefusal::Kind::invalid : SubjectRefusal::Kind::unsupported,
      error.message);
}

void ProcessSubject::fail(std::string what) {
  if (child_) {
    const std::string last = last_words_first(child_->last_words(), kLastWordsShown);
    if (!last.empty()) what += "; standard error ends: " + last;
  }
  child_.reset();
  throw SubjectBroken(what);
}

}  // namespace kvconform
