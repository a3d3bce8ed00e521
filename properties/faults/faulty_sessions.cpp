// Faults in how sessions are kept apart and how what they hold is used again.
#include <algorithm>
#include <numeric>

#include "properties/faults/wrapped_subject.h"

namespace kvconform {
namespace {

constexpr int kRoom = 64;  // tokens of other sessions that end up in one

/// Sessions with room for more than they should ever hold; what is refused stays the same.
class RoomySubject : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    check_extend(book(session), tokens);
    return WrappedSubject::extend(session, tokens, trace);
  }

 protected:
  int inner_capacity(int capacity) const override { return 4 * capacity + kRoom; }
};

class SharedForks : public RoomySubject {
 public:
  using RoomySubject::RoomySubject;
  SessionId fork(SessionId session) override { return keep(book(session)); }
  void close(SessionId session) override { forget(session); }
};

class SurvivingSessions : public RoomySubject {
 public:
  using RoomySubject::RoomySubject;
  SessionId open(ModelId model, int batch, int capacity, int start) override {
    const auto idle = std::find_if(idle_.begin(), idle_.end(), [&](const Book& b) {
      return b.model == model && b.batch == batch && b.start == start && b.capacity >= capacity;
    });
    if (idle == idle_.end()) return RoomySubject::open(model, batch, capacity, start);
    Book book = *idle;  // its rows still lie in the cache
    idle_.erase(idle);
    book.lengths.assign(std::size_t(batch), 0);
    book.capacity = capacity;
    for (auto& lengths : book.inner_lengths) lengths = {lengths.back()};
    return keep(std::move(book));
  }
  void close(SessionId session) override {
    idle_.push_back(book(session));
    forget(session);
  }
  void unload(ModelId model) override {
    std::erase_if(idle_, [&](const Book& b) { return b.model == model; });
    RoomySubject::unload(model);
  }

 private:
  std::vector<Book> idle_;
};

class SharedSlots : public RoomySubject {
 public:
  using RoomySubject::RoomySubject;
  SessionId open(ModelId model, int batch, int capacity, int start) override {
    for (const auto& [id, other] : books()) {
      if (other.model != model || other.batch != batch || other.start != start) continue;
      Book book = other;
      book.lengths.assign(std::size_t(batch), 0);
      book.capacity = capacity;
      for (auto& lengths : book.inner_lengths) lengths = {lengths.back()};
      return keep(std::move(book));
    }
    return RoomySubject::open(model, batch, capacity, start);
  }
  void close(SessionId session) override { forget(session); }
};

class FirstRowRestored : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  SessionId restore(ModelId model, const std::filesystem::path& file) override {
    const SessionId session = WrappedSubject::restore(model, file);
    Book& of = book(session);
    inner().reorder(of.inner, std::vector<int>(std::size_t(of.batch), 0));
    return session;
  }
};

/// A file names pages of the table that its load had: in another one they hold other keys.
class PagesOfLoad : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  SessionId restore(ModelId model, const std::filesystem::path& file) override {
    const SessionId session = WrappedSubject::restore(model, file);
    const Book* saved = saved_as(file);
    if (saved != nullptr && saved->model == model) return session;
    const Book& of = book(session);
    TokenRows others;
    for (const int length : of.lengths) others.emplace_back(std::size_t(length), 0);
    inner().rewind(of.inner, std::vector<int>(others.size(), 0));
    inner().extend(of.inner, others, false);
    return session;
  }
};

class HandleSaved : public WrappedSubject {
 public:
  using WrappedSubject::WrappedSubject;
  SessionId restore(ModelId model, const std::filesystem::path& file) override {
    if (saved_as(file) == nullptr)
      throw SubjectRefusal(SubjectRefusal::Kind::invalid, "no state is kept under that handle");
    return WrappedSubject::restore(model, file);
  }
};

/// Prompts of one row are kept when they are fed to an empty session, and looked up when the next
/// one is.
class PrefixCache : public RoomySubject {
 public:
  PrefixCache(std::unique_ptr<Subject> inner, bool short_hash)
      : RoomySubject(std::move(inner)), short_hash_(short_hash) {}

  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    Book& of = book(session);
    check_extend(of, tokens);
    const bool prompt = of.batch == 1 && of.start == 0 && of.lengths[0] == 0 && !tokens[0].empty();
    if (!prompt) return RoomySubject::extend(session, tokens, trace);
    for (const Entry& entry : entries_) {
      if (entry.model == of.model && found(entry.tokens, tokens[0])) {
        return use(entry, of, tokens, trace);
      }
    }
    Output output = RoomySubject::extend(session, tokens, trace);
    entries_.push_back({of.model, tokens[0], inner().fork(of.inner)});
    return output;
  }
  void unload(ModelId model) override {
    std::erase_if(entries_, [&](const Entry& e) { return e.model == model; });
    RoomySubject::unload(model);
  }

 private:
  struct Entry {
    ModelId model;
    std::vector<int> tokens;
    SessionId snapshot;
  };

  bool found(const std::vector<int>& stored, const std::vector<int>& prompt) const {
    if (!short_hash_) return stored == prompt;
    return stored.size() == prompt.size() && stored[0] == prompt[0];
  }

  /// The rows before the last are computed again; the last token is fed to the stored cache.
  Output use(const Entry& entry, Book& of, const TokenRows& tokens, bool trace) {
    const int last = int(tokens[0].size()) - 1;
    if (short_hash_) {  // what is stored for the hash is right, so the prompt is taken for it
      Output output = inner().extend(of.inner, {entry.tokens}, trace);
      count(of, tokens, tokens);
      return output;
    }
    std::vector<int> before(std::size_t(last), 0);
    std::iota(before.begin(), before.end(), 0);
    const Output prompt = inner().extend(of.inner, tokens, trace);
    of.inner = inner().fork(entry.snapshot);
    const Output replayed = inner().extend(of.inner, {{tokens[0].back()}}, trace);
    TokenRows fed = tokens;
    fed[0].push_back(tokens[0].back());
    count(of, tokens, fed);
    return joined(chosen_rows(prompt, before), replayed);
  }

  const bool short_hash_;
  std::vector<Entry> entries_;
};

}  // namespace

std::unique_ptr<Subject> fork_shares_storage(std::unique_ptr<Subject> inner) {
  return std::make_unique<SharedForks>(std::move(inner));
}
std::unique_ptr<Subject> closed_session_lives_on(std::unique_ptr<Subject> inner) {
  return std::make_unique<SurvivingSessions>(std::move(inner));
}
std::unique_ptr<Subject> neighbours_share_a_slot(std::unique_ptr<Subject> inner) {
  return std::make_unique<SharedSlots>(std::move(inner));
}
std::unique_ptr<Subject> restore_gives_first_row(std::unique_ptr<Subject> inner) {
  return std::make_unique<FirstRowRestored>(std::move(inner));
}
std::unique_ptr<Subject> restore_by_page_table_of_load(std::unique_ptr<Subject> inner) {
  return std::make_unique<PagesOfLoad>(std::move(inner));
}
std::unique_ptr<Subject> saved_file_is_a_handle(std::unique_ptr<Subject> inner) {
  return std::make_unique<HandleSaved>(std::move(inner));
}
std::unique_ptr<Subject> prefix_hit_replays_last_token(std::unique_ptr<Subject> inner) {
  return std::make_unique<PrefixCache>(std::move(inner), false);
}
std::unique_ptr<Subject> prefix_found_by_short_hash(std::unique_ptr<Subject> inner) {
  return std::make_unique<PrefixCache>(std::move(inner), true);
}

}  // namespace kvconform
