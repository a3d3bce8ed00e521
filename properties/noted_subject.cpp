// Requests in words, with the lengths that their rows had.
#include "properties/noted_subject.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace kvconform {
namespace {

std::vector<int> counts_of(const TokenRows& tokens) {
  std::vector<int> counts;
  for (const auto& row : tokens) counts.push_back(static_cast<int>(row.size()));
  return counts;
}

}  // namespace

void RequestLog::failed(const std::string& request, const std::string& said) {
  const std::string call = call_ < 0 ? "" : fmt::format("call {}, ", call_);
  failed_ = {call + request, said};
}

void RequestLog::explain(Verdict& verdict) const {
  if (!failed_) return;
  const bool told =
      !failed_->said.empty() && verdict.message.find(failed_->said) != std::string::npos;
  if (told) {
    verdict.request = failed_->request;
  } else if (verdict.kind == VerdictKind::refused) {  // in words of the property's own
    verdict.request = fmt::format("{} (\"{}\")", failed_->request, failed_->said);
  }
}

/// Loads are left out: what is refused about a model, the subject must say, and a case has one.
template <class Words, class Request>
auto NotedSubject::noted(Words words, Request request) {
  try {
    auto result = request();
    log_->succeeded();
    return result;
  } catch (const SubjectUnusable&) {
    throw;
  } catch (const SubjectRefusal& e) {
    log_->failed(words(), e.what());
    throw;
  } catch (const SubjectBroken& e) {
    log_->failed(words(), e.what());
    throw;
  }
}

std::string NotedSubject::on(SessionId session) const {
  const auto found = lengths_.find(session);
  return found == lengths_.end() ? "an unknown session"
                                 : fmt::format("rows of {} tokens", found->second);
}

Subject::ModelId NotedSubject::load(const ModelSource& source) {
  const ModelId model = subject_->load(source);
  log_->succeeded();
  return model;
}

void NotedSubject::unload(ModelId model) {
  subject_->unload(model);
}

Output NotedSubject::score(ModelId model, const TokenRows& tokens, bool trace) {
  return noted([&] { return fmt::format("score of rows of {} tokens", counts_of(tokens)); },
               [&] { return subject_->score(model, tokens, trace); });
}

Subject::SessionId NotedSubject::open(ModelId model, int batch, int capacity, int start) {
  const SessionId session = noted(
      [&] {
        return fmt::format("open with batch {}, capacity {}{}", batch, capacity,
                           start > 0 ? fmt::format(", start {}", start) : "");
      },
      [&] { return subject_->open(model, batch, capacity, start); });
  lengths_[session].assign(static_cast<std::size_t>(std::max(batch, 0)), 0);
  return session;
}

Output NotedSubject::extend(SessionId session, const TokenRows& tokens, bool trace) {
  const std::vector<int> counts = counts_of(tokens);
  Output output = noted([&] { return fmt::format("extend of {} by {}", on(session), counts); },
                        [&] { return subject_->extend(session, tokens, trace); });
  std::vector<int>& lengths = lengths_[session];
  for (std::size_t r = 0; r < std::min(lengths.size(), counts.size()); ++r) lengths[r] += counts[r];
  return output;
}

void NotedSubject::rewind(SessionId session, const std::vector<int>& lengths) {
  noted([&] { return fmt::format("rewind of {} to {}", on(session), lengths); },
        [&] { return subject_->rewind(session, lengths), true; });
  lengths_[session] = lengths;
}

Subject::SessionId NotedSubject::fork(SessionId session) {
  const SessionId copy =
      noted([&] { return "fork of " + on(session); }, [&] { return subject_->fork(session); });
  lengths_[copy] = std::vector<int>(lengths_[session]);
  return copy;
}

void NotedSubject::reorder(SessionId session, const std::vector<int>& rows) {
  noted([&] { return fmt::format("reorder of {}: rows {}", on(session), rows); },
        [&] { return subject_->reorder(session, rows), true; });
  const std::vector<int> before = std::exchange(lengths_[session], {});
  for (const int row : rows) {
    const bool known = row >= 0 && row < static_cast<int>(before.size());
    lengths_[session].push_back(known ? before[static_cast<std::size_t>(row)] : 0);
  }
}

void NotedSubject::save(SessionId session, const std::filesystem::path& file) {
  noted([&] { return "save of " + on(session); },
        [&] { return subject_->save(session, file), true; });
  log_->saved[file] = lengths_[session];
}

Subject::SessionId NotedSubject::restore(ModelId model, const std::filesystem::path& file) {
  const auto saved = log_->saved.find(file);
  const SessionId session = noted(
      [&] {
        return saved == log_->saved.end()
                   ? std::string("restore of a file that the case has not saved")
                   : fmt::format("restore of rows of {} tokens", saved->second);
      },
      [&] { return subject_->restore(model, file); });
  if (saved != log_->saved.end()) lengths_[session] = saved->second;
  return session;
}

CacheReport NotedSubject::cache(SessionId session) {
  return noted([&] { return "cache report of " + on(session); },
               [&] { return subject_->cache(session); });
}

void NotedSubject::close(SessionId session) {
  subject_->close(session);
  lengths_.erase(session);
}

}  // namespace kvconform
