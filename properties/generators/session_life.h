// Lives of sessions: a state machine that knows what every session of a case holds, so that each
// call it is asked for is valid by construction.
//
//   SessionLives lives(draw, bounds, draw_style(draw));
//   const int first = lives.open(2);
//   lives.feed(first, 6);                 // rows of up to six new tokens, some of them none
//   const int copy = lives.fork(first);
//   lives.rewind(first);                  // 0, 1, k, all, to the wrap, as far as a margin serves
//   return lives.take();
//
// Numbers of sessions are never used twice.
#pragma once

#include <map>
#include <vector>

#include "properties/generators/call_generator.h"
#include "properties/generators/draw.h"

namespace kvconform {

/// What a part of the subjects lacks: every property has cases without it.
struct LifeStyle {
  bool ragged = true;   ///< rows of unequal lengths
  bool chunked = true;  ///< several tokens on a cache that holds some
};

LifeStyle draw_style(Draw& draw);

class SessionLives {
 public:
  /// Margin of every rewind once a window has wrapped: what a subject with a margin of 8 serves.
  static constexpr int kRewindMargin = 8;

  SessionLives(Draw& draw, const PromptBounds& bounds, LifeStyle style)
      : draw_(draw), bounds_(bounds), style_(style) {}

  int open(int batch, int start = 0, int more = 0);  ///< more: room beyond the usual prompts
  int fork(int session);
  void save(int session);
  int restore(int saved);  ///< the session as it was when it was last saved
  void close(int session);

  /// New tokens for the rows of a session, at most `most` each; one at a time without `chunked`.
  void feed(int session, int most);
  void feed_rows(int session, const std::vector<int>& counts);    ///< cut to the room there is
  void feed_tokens(int session, const std::vector<int>& tokens);  ///< of a session of one row

  void rewind(int session);
  void rewind_to(int session, std::vector<int> lengths);  ///< no shorter than can be served
  void reorder(int session);
  void reorder(int session, const std::vector<int>& sources);

  /// Past the window, or as far as the room allows.
  void feed_past_window(int session);

  const std::vector<int>& lengths(int session) const { return at(session).lengths; }
  int batch(int session) const { return static_cast<int>(at(session).lengths.size()); }
  int room(int session) const;               ///< tokens that every row can still take
  int shortest(int session, int row) const;  ///< length that a margin can still serve
  std::vector<int> alive() const;
  int draw_feed();  ///< a number of tokens around the window, or small

  std::vector<Call> take() { return std::move(calls_); }

 private:
  struct Rows {
    int capacity = 0;
    std::vector<int> lengths, longest;
  };

  const Rows& at(int session) const { return open_.at(session); }
  int add(Rows rows);
  std::vector<int> draw_lengths(int session);
  std::vector<int> draw_one_length(int session);

  Draw& draw_;
  PromptBounds bounds_;
  LifeStyle style_;
  int next_ = 0;
  std::map<int, Rows> open_, saved_;
  std::vector<Call> calls_;
};

/// One session that lives: feeds, then forks, reorders, rewinds, saves and restores, mostly with
/// feeds between them. Now and then it is long: what engines reserve at once ends amid it.
std::vector<Call> draw_session_life(Draw& draw, const PromptBounds& bounds);

}  // namespace kvconform
