// Running a case's calls while keeping the tokens behind every position.
#include "properties/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "properties/temporary_folder.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

[[noreturn]] void senseless(const Call& call, const std::string& what) {
  throw Error(
      "KV2005",
      fmt::format("{} of session {} makes no sense: {}", to_string(call.kind), call.session, what),
      "correct the calls of the case, or generate it anew");
}

/// While it lives, requests belong to a call of the case.
class AtCall {
 public:
  AtCall(Subject& subject, int index) : subject_(subject) { subject_.at_call(index); }
  ~AtCall() { subject_.at_call(-1); }
  AtCall(const AtCall&) = delete;
  AtCall& operator=(const AtCall&) = delete;

 private:
  Subject& subject_;
};

}  // namespace

bool TokenHistory::is_prefix_of(const TokenHistory& other) const {
  return start == other.start && tokens.size() <= other.tokens.size() &&
         std::equal(tokens.begin(), tokens.end(), other.tokens.begin());
}

bool covers(const TokenHistory& longer, const TokenHistory& history, bool causal, Chunks chunks) {
  if (causal ? !history.is_prefix_of(longer) : !(history == longer)) return false;
  return chunks == Chunks::any ||
         (history.ends.size() <= longer.ends.size() &&
          std::equal(history.ends.begin(), history.ends.end(), longer.ends.begin()));
}

void TokenHistory::take(const std::vector<int>& more) {
  if (more.empty()) return;
  tokens.insert(tokens.end(), more.begin(), more.end());
  ends.push_back(static_cast<int>(tokens.size()));
}

void TokenHistory::cut(int length) {
  tokens.resize(length);
  while (!ends.empty() && ends.back() >= length) ends.pop_back();
  if (length > 0) ends.push_back(length);
}

RowLedger::Rows& RowLedger::session(int number) {
  return open_[number];
}

std::vector<RowSpan> RowLedger::apply(const Call& call) {
  std::vector<RowSpan> spans;
  Rows& rows = session(call.session);
  switch (call.kind) {
    case Call::Kind::score:
      for (std::size_t r = 0; r < call.tokens.size(); ++r) {
        TokenHistory history;
        history.take(call.tokens[r]);
        spans.push_back({static_cast<int>(r), std::move(history), 0});
      }
      break;
    case Call::Kind::open:
      rows.assign(call.batch, TokenHistory{{}, call.start});
      break;
    case Call::Kind::extend:
      if (call.tokens.size() != rows.size()) senseless(call, "wrong number of rows");
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const int first = static_cast<int>(rows[r].tokens.size());
        rows[r].take(call.tokens[r]);
        spans.push_back({static_cast<int>(r), rows[r], first});
      }
      break;
    case Call::Kind::rewind:
      if (call.numbers.size() != rows.size()) senseless(call, "wrong number of rows");
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const int length = call.numbers[r];
        if (length < 0 || length > static_cast<int>(rows[r].tokens.size())) {
          senseless(call, fmt::format("row {} cannot become {} long", r, length));
        }
        rows[r].cut(length);
      }
      break;
    case Call::Kind::reorder: {
      if (call.numbers.size() != rows.size()) senseless(call, "wrong number of rows");
      Rows old = rows;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const int source = call.numbers[r];
        if (source < 0 || source >= static_cast<int>(old.size())) {
          senseless(call, fmt::format("there is no row {}", source));
        }
        rows[r] = old[source];
      }
      break;
    }
    case Call::Kind::fork:
      rows = open_[call.from];
      break;
    case Call::Kind::save:
      saved_[call.session] = rows;
      break;
    case Call::Kind::restore:
      rows = saved_[call.from];
      break;
    case Call::Kind::close:
      open_.erase(call.session);
      break;
  }
  return spans;
}

void check_shape(const CallRecord& record, int vocab_size, bool trace) {
  int positions = 0;
  for (const RowSpan& span : record.rows) positions += span.count();
  const Logits& logits = record.output.logits;
  if (logits.positions != positions || (positions > 0 && logits.vocab != vocab_size) ||
      logits.values.size() != std::size_t(positions) * vocab_size) {
    throw SubjectBroken(fmt::format(
        "call {}: logits of shape [{}, {}] with {}, not [{}, {}]", record.call, logits.positions,
        logits.vocab, counted(logits.values.size(), "number"), positions, vocab_size));
  }
  if (!trace) return;
  for (const TraceArray& array : record.output.trace) {
    std::int64_t count = 1;
    for (std::int64_t axis : array.shape) count *= axis;
    if (array.shape.empty() || array.shape[0] != positions ||
        count != static_cast<std::int64_t>(array.values.size())) {
      throw SubjectBroken(fmt::format("call {}: trace {} has not one entry for each of {}",
                                      record.call, array.name, counted(positions, "position")));
    }
  }
}

CallRunner::CallRunner(Subject& subject, Subject::ModelId model)
    : subject_(subject), model_(model) {}
CallRunner::~CallRunner() = default;

Output CallRunner::run(const Call& call, bool trace) {
  const AtCall at(subject_, next_++);
  return ask(call, trace);
}

Output CallRunner::ask(const Call& call, bool trace) {
  switch (call.kind) {
    case Call::Kind::score:
      return subject_.score(model_, call.tokens, trace);
    case Call::Kind::open:
      open_[call.session] = subject_.open(model_, call.batch, call.capacity, call.start);
      break;
    case Call::Kind::extend:
      return subject_.extend(id(call.session), call.tokens, trace);
    case Call::Kind::rewind:
      subject_.rewind(id(call.session), call.numbers);
      break;
    case Call::Kind::fork:
      open_[call.session] = subject_.fork(id(call.from));
      break;
    case Call::Kind::reorder:
      subject_.reorder(id(call.session), call.numbers);
      break;
    case Call::Kind::save:
      subject_.save(id(call.session), file(call.session));
      break;
    case Call::Kind::restore:
      open_[call.session] = subject_.restore(model_, file(call.from));
      break;
    case Call::Kind::close:
      subject_.close(id(call.session));
      break;
  }
  return {};
}

std::filesystem::path CallRunner::file(int session) {
  if (!folder_) folder_ = std::make_unique<TemporaryFolder>("kvconform-saved");
  return folder_->path() / fmt::format("session-{}", session);
}

Transcript run_calls(Subject& subject, Subject::ModelId model, const std::vector<Call>& calls,
                     int vocab_size, bool trace) {
  CallRunner runner(subject, model);
  RowLedger ledger;
  Transcript transcript;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Output output = runner.run(calls[i], trace);
    std::vector<RowSpan> rows = ledger.apply(calls[i]);
    if (calls[i].kind != Call::Kind::score && calls[i].kind != Call::Kind::extend) continue;
    transcript.push_back({static_cast<int>(i), std::move(rows), std::move(output)});
    check_shape(transcript.back(), vocab_size, trace);
  }
  return transcript;
}

std::vector<TokenHistory> longest_histories(const std::vector<Call>& calls, bool causal,
                                            Chunks chunks) {
  RowLedger ledger;
  std::vector<TokenHistory> longest;
  for (const Call& call : calls) {
    for (const RowSpan& span : ledger.apply(call)) {
      if (span.count() == 0) continue;
      const bool known = std::any_of(longest.begin(), longest.end(), [&](const TokenHistory& h) {
        return covers(h, span.history, causal, chunks);
      });
      if (known) continue;
      std::erase_if(longest,
                    [&](const TokenHistory& h) { return covers(span.history, h, causal, chunks); });
      longest.push_back(span.history);
    }
  }
  return longest;
}

}  // namespace kvconform
