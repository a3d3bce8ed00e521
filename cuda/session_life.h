// Random lives of sessions, for tests: rows are fed in ragged calls, cut back, copied, reordered,
// saved and restored, and every row of logits is held against what the same tokens score.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cuda/engine.h"
#include "cuda/test_arrays.h"

namespace kvconform::cuda {

class SessionLife {
 public:
  SessionLife(std::shared_ptr<const Engine> engine, std::shared_ptr<const Engine> judge,
              const SessionOptions& options, std::uint64_t seed)
      : engine_(std::move(engine)),
        judge_(std::move(judge)),
        options_(options),
        random_{seed},
        session_(std::make_unique<Session>(engine_, options)),
        rows_(options.batch) {}

  /// Whether every row of every call had the bits of its score.
  bool run(int calls) {
    for (int i = 0; i < calls; ++i) {
      feed(std::max(1, options_.capacity / 3));
      switch (random_.between(0, 5)) {
        case 0:
          reorder();
          break;
        case 1:
          session_ = session_->fork();
          break;
        case 2:
          save_and_restore();
          break;
        default:
          rewind();
      }
    }
    return healthy_;
  }

  const Session& session() const { return *session_; }
  int compared() const { return compared_; }
  int rewinds_beyond_reserve() const { return beyond_; }

 private:
  using Tokens = std::vector<int>;

  /// Logits of the last `count` positions.
  std::vector<float> scored(const Tokens& tokens, std::size_t count) const {
    const auto all = judge_->score({tokens});
    const std::size_t v = judge_->config().vocab_size;
    return {all.end() - std::ptrdiff_t(count * v), all.end()};
  }

  void feed(int most) {
    std::vector<Tokens> call;
    std::vector<std::vector<bool>> wanted;
    for (const Tokens& row : rows_) {
      const int room = std::min(most, options_.capacity - int(row.size()));
      const int count = random_.between(0, 4) == 0 ? std::min(1, room) : random_.between(0, room);
      call.emplace_back();
      wanted.emplace_back();
      for (int i = 0; i < count; ++i) {
        call.back().push_back(random_.between(0, judge_->config().vocab_size - 1));
        wanted.back().push_back(random_.between(0, 2) == 0);
      }
      if (count > 0) wanted.back().back() = random_.between(0, 3) != 0;
    }
    compare(call, wanted, session_->extend(call, wanted));
  }

  void compare(const std::vector<Tokens>& call, const std::vector<std::vector<bool>>& wanted,
               const std::vector<float>& logits) {
    const std::size_t v = judge_->config().vocab_size;
    std::vector<float> expected;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      rows_[r].insert(rows_[r].end(), call[r].begin(), call[r].end());
      if (call[r].empty()) continue;
      const auto all = scored(rows_[r], call[r].size());
      for (std::size_t i = 0; i < call[r].size(); ++i)
        if (wanted[r][i])
          expected.insert(expected.end(), all.begin() + i * v, all.begin() + (i + 1) * v);
    }
    compared_ += int(expected.size() / v);
    if (!same_bits(expected, logits)) healthy_ = false;
  }

  void rewind() {
    std::vector<int> lengths;
    for (Tokens& row : rows_) {
      const int length = int(row.size());
      lengths.push_back(random_.between(std::max(0, length - options_.reserve / 2), length));
    }
    if (options_.policy == RewindPolicy::replay)
      for (std::size_t r = 0; r < rows_.size(); ++r)
        if (random_.between(0, 2) == 0) lengths[r] = random_.between(0, int(rows_[r].size()));
    const auto before = session_->replays();
    try {
      session_->rewind(lengths);
    } catch (const std::exception&) {  // rows that were cut back before may lie beyond the reserve
      ++beyond_;
      return;
    }
    beyond_ += int(session_->replays() - before);
    for (std::size_t r = 0; r < rows_.size(); ++r) rows_[r].resize(lengths[r]);
  }

  void reorder() {
    std::vector<int> sources;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      sources.push_back(random_.between(0, int(rows_.size()) - 1));
    session_->reorder(sources);
    const auto old = rows_;
    for (std::size_t r = 0; r < rows_.size(); ++r) rows_[r] = old[sources[r]];
  }

  void save_and_restore() {
    const auto file =
        std::filesystem::temp_directory_path() / ("kvconform-session-" + std::to_string(getpid()));
    session_->save(file);
    SessionOptions other = options_;  // rings of another size
    other.granularity = random_.between(1, 9);
    other.reserve += random_.between(0, 5);
    session_ = Session::restore(engine_, other, file);
    std::filesystem::remove(file);
  }

  std::shared_ptr<const Engine> engine_, judge_;
  SessionOptions options_;
  RandomNumbers random_;
  std::unique_ptr<Session> session_;
  std::vector<Tokens> rows_;
  bool healthy_ = true;
  int compared_ = 0, beyond_ = 0;
};

}  // namespace kvconform::cuda
