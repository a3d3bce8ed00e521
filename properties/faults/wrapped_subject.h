// A subject around another one: the base of faults that lie in how sessions are kept, padded,
// reported or refused, and not in the model. It forwards every request and keeps books on sessions;
// a fault overrides what it gets wrong.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "properties/subject.h"

namespace kvconform {

class WrappedSubject : public Subject {
 public:
  explicit WrappedSubject(std::unique_ptr<Subject> inner) : inner_(std::move(inner)) {}

  const SubjectInfo& info() const override { return inner_->info(); }
  ModelId load(const ModelSource& source) override;
  void unload(ModelId model) override;
  Output score(ModelId model, const TokenRows& tokens, bool trace) override;
  SessionId open(ModelId model, int batch, int capacity, int start) override;
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override;
  void rewind(SessionId session, const std::vector<int>& lengths) override;
  SessionId fork(SessionId session) override;
  void reorder(SessionId session, const std::vector<int>& rows) override;
  void save(SessionId session, const std::filesystem::path& file) override;
  SessionId restore(ModelId model, const std::filesystem::path& file) override;
  CacheReport cache(SessionId session) override;
  void close(SessionId session) override;

 protected:
  /// What is known of a session whose cache the inner subject holds.
  struct Book {
    SessionId inner = 0;
    ModelId model = 0;
    int batch = 1, capacity = 0, start = 0;
    std::vector<int> lengths;                     ///< as the caller counts them
    std::vector<std::vector<int>> inner_lengths;  ///< [row][length]: what the inner one holds
  };

  /// Room that the inner session has beyond what the caller asked for.
  virtual int inner_capacity(int capacity) const { return capacity; }

  Subject& inner() { return *inner_; }
  Book& book(SessionId session);
  const std::shared_ptr<const Checkpoint>& checkpoint(ModelId model) { return models_.at(model); }
  SessionId keep(Book book);
  void forget(SessionId session) { books_.erase(session); }
  const std::map<SessionId, Book>& books() const { return books_; }
  /// The book of the session that this subject wrote there; null: another one did.
  const Book* saved_as(const std::filesystem::path& file) const;
  /// The caller's rows got these tokens; the inner ones as many or more.
  static void count(Book& book, const TokenRows& tokens, const TokenRows& inner_tokens);
  /// Refuses what a healthy subject refuses, where the inner one no longer would.
  void check_extend(const Book& book, const TokenRows& tokens) const;

 private:
  std::unique_ptr<Subject> inner_;
  std::map<ModelId, std::shared_ptr<const Checkpoint>> models_;
  std::map<SessionId, Book> books_;
  std::map<std::filesystem::path, Book> saved_;
  SessionId next_ = 0;
};

/// Rows of an output by their indices, in the given order.
Output chosen_rows(const Output& output, const std::vector<int>& rows);

/// One output under the other.
Output joined(Output first, const Output& second);

// ---- the faults, each around a healthy reference ----
using Wrap = std::unique_ptr<Subject> (*)(std::unique_ptr<Subject>);

// faulty_sessions.cpp
std::unique_ptr<Subject> fork_shares_storage(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> closed_session_lives_on(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> neighbours_share_a_slot(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> restore_gives_first_row(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> restore_by_page_table_of_load(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> saved_file_is_a_handle(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> prefix_hit_replays_last_token(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> prefix_found_by_short_hash(std::unique_ptr<Subject> inner);

// faulty_padding.cpp
std::unique_ptr<Subject> left_pads_attended(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> padded_rows_give_nan(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> pad_mask_skipped_for_one_row(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> pads_stored(std::unique_ptr<Subject> inner);

// faulty_refusals.cpp
std::unique_ptr<Subject> accepts_tokens_outside_vocabulary(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> accepts_extend_past_capacity(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> accepts_missing_rows(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> refusal_leaves_half_a_call(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> accepts_invalid_map(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> accepts_all_layers_shared(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> dead_tensors_required(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> consumers_hold_caches(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> windows_reserve_capacity(std::unique_ptr<Subject> inner);
std::unique_ptr<Subject> report_forgets_rewind(std::unique_ptr<Subject> inner);

}  // namespace kvconform
