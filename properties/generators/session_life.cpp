// The state machine of sessions.
#include "properties/generators/session_life.h"

#include <algorithm>

namespace kvconform {
namespace {

Call call_of(Call::Kind kind, int session, int from = 0) {
  Call call;
  call.kind = kind;
  call.session = session;
  call.from = from;
  return call;
}

}  // namespace

LifeStyle draw_style(Draw& draw) {
  LifeStyle style;
  style.ragged = draw.chance(75);
  style.chunked = draw.chance(80);
  return style;
}

int SessionLives::add(Rows rows) {
  open_[next_] = std::move(rows);
  return next_++;
}

int SessionLives::open(int batch, int start, int more) {
  Rows rows;
  rows.capacity = more + bounds_.most + draw_.between(2, 6);
  rows.lengths.assign(batch, 0);
  rows.longest.assign(batch, 0);
  Call call = call_of(Call::Kind::open, next_);
  call.batch = batch;
  call.capacity = rows.capacity;
  call.start = start;
  calls_.push_back(call);
  return add(std::move(rows));
}

int SessionLives::fork(int session) {
  calls_.push_back(call_of(Call::Kind::fork, next_, session));
  return add(at(session));
}

void SessionLives::save(int session) {
  calls_.push_back(call_of(Call::Kind::save, session));
  saved_[session] = at(session);
}

int SessionLives::restore(int saved) {
  calls_.push_back(call_of(Call::Kind::restore, next_, saved));
  return add(saved_.at(saved));
}

void SessionLives::close(int session) {
  calls_.push_back(call_of(Call::Kind::close, session));
  open_.erase(session);
}

int SessionLives::room(int session) const {
  const Rows& rows = at(session);
  return rows.capacity - *std::max_element(rows.lengths.begin(), rows.lengths.end());
}

int SessionLives::shortest(int session, int row) const {
  const Rows& rows = at(session);
  const bool wrapped = bounds_.window > 0 && rows.longest[row] > bounds_.window;
  return wrapped ? std::clamp(rows.longest[row] - kRewindMargin, 0, rows.lengths[row]) : 0;
}

std::vector<int> SessionLives::alive() const {
  std::vector<int> sessions;
  for (const auto& [session, rows] : open_) sessions.push_back(session);
  return sessions;
}

int SessionLives::draw_feed() {
  const int w = std::max(1, bounds_.window);
  return draw_.one_of({1, 1, 2, 3, w, w + 1, 6});
}

void SessionLives::feed(int session, int most) {
  most = std::max(1, most);
  const int count = draw_.between(1, most);
  std::vector<int> counts;
  for (int r = 0; r < batch(session); ++r) {
    const int own = draw_.between(1, most);
    const bool none = batch(session) > 1 ? draw_.chance(20) : draw_.chance(4);
    counts.push_back(!style_.ragged ? count : none ? 0 : own);
  }
  feed_rows(session, counts);
}

void SessionLives::feed_rows(int session, const std::vector<int>& counts) {
  Rows& rows = open_.at(session);
  const int all = style_.ragged ? rows.capacity : room(session);
  const bool empty = *std::max_element(rows.lengths.begin(), rows.lengths.end()) == 0;
  const bool single = !style_.chunked && !empty;
  TokenRows tokens;
  for (std::size_t r = 0; r < rows.lengths.size(); ++r) {
    int count = std::min({counts[r], all, rows.capacity - rows.lengths[r]});
    if (single) count = std::min(count, 1);
    tokens.push_back(draw_tokens(draw_, bounds_, count));
    rows.lengths[r] += count;
    rows.longest[r] = std::max(rows.longest[r], rows.lengths[r]);
  }
  Call call = call_of(Call::Kind::extend, session);
  call.tokens = std::move(tokens);
  calls_.push_back(std::move(call));
}

void SessionLives::feed_tokens(int session, const std::vector<int>& tokens) {
  Rows& rows = open_.at(session);
  rows.lengths[0] += static_cast<int>(tokens.size());
  rows.longest[0] = std::max(rows.longest[0], rows.lengths[0]);
  Call call = call_of(Call::Kind::extend, session);
  call.tokens = {tokens};
  calls_.push_back(std::move(call));
}

void SessionLives::feed_past_window(int session) {
  const int w = bounds_.window;
  const int past = w > 0 ? w + draw_.between(1, 3) : draw_.between(3, 6);
  const int once = draw_.one_of({1, 2, w + 1, past});
  for (int guard = 0; guard < 24; ++guard) {
    const auto& now = lengths(session);
    const int shortest = *std::min_element(now.begin(), now.end());
    if (shortest >= past || room(session) <= 0) return;
    const int count = style_.chunked ? std::clamp(once, 1, past - shortest) : 1;
    feed_rows(session, std::vector<int>(now.size(), shortest == 0 ? past - 1 : count));
  }
}

std::vector<int> SessionLives::draw_lengths(int session) {
  const Rows& rows = at(session);
  const bool alone = batch(session) > 1 && style_.ragged && draw_.chance(35);
  if (alone) return draw_one_length(session);
  const int kind = draw_.between(0, 5);
  std::vector<int> lengths;
  for (int r = 0; r < batch(session); ++r) {
    const int length = rows.lengths[r], least = shortest(session, r);
    const int drawn = draw_.between(least, length);
    const int back = draw_.between(1, 3);
    lengths.push_back(kind == 0   ? length
                      : kind == 1 ? 0
                      : kind == 2 ? least
                      : kind <= 4 ? std::max(least, length - back)
                                  : drawn);
  }
  if (!style_.ragged) std::fill(lengths.begin(), lengths.end(), lengths[0]);
  return lengths;
}

/// As in a server, where one request ends, or has its drafts rejected, and the others go on.
std::vector<int> SessionLives::draw_one_length(int session) {
  std::vector<int> lengths = at(session).lengths;
  const int row = draw_.between(0, batch(session) - 1);
  const bool ends = draw_.chance(50);
  const int back = draw_.between(1, 3);
  lengths[row] = ends ? 0 : std::max(shortest(session, row), lengths[row] - back);
  return lengths;
}

void SessionLives::rewind(int session) {
  rewind_to(session, draw_lengths(session));
}

void SessionLives::rewind_to(int session, std::vector<int> lengths) {
  Rows& rows = open_.at(session);
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    int& length = lengths[r];
    if (length > 0) length = std::clamp(length, shortest(session, r), rows.lengths[r]);
    rows.lengths[r] = length;
    if (length == 0) rows.longest[r] = 0;
  }
  Call call = call_of(Call::Kind::rewind, session);
  call.numbers = std::move(lengths);
  calls_.push_back(std::move(call));
}

void SessionLives::reorder(int session) {
  const int last = batch(session) - 1;
  std::vector<int> sources;
  for (int r = 0; r <= last; ++r) sources.push_back(draw_.between(0, last));
  reorder(session, sources);
}

void SessionLives::reorder(int session, const std::vector<int>& sources) {
  Rows& rows = open_.at(session);
  const Rows old = rows;
  for (std::size_t r = 0; r < sources.size(); ++r) {
    rows.lengths[r] = old.lengths[sources[r]];
    rows.longest[r] = old.longest[sources[r]];
  }
  Call call = call_of(Call::Kind::reorder, session);
  call.numbers = sources;
  calls_.push_back(std::move(call));
}

namespace {

/// One change of a session; answers which session goes on.
int change(Draw& draw, SessionLives& lives, int session) {
  const int kind = draw.between(0, 3);
  if (kind == 0) return lives.rewind(session), session;
  if (kind == 1) return lives.reorder(session), session;
  if (kind == 3) lives.save(session);
  const int copy = kind == 2 ? lives.fork(session) : lives.restore(session);
  // Sometimes the original is fed other tokens first, which the copy must not see.
  if (draw.chance(50)) lives.feed(session, 2);
  return copy;
}

}  // namespace

std::vector<Call> draw_session_life(Draw& draw, const PromptBounds& bounds) {
  const LifeStyle style = draw_style(draw);
  SessionLives lives(draw, bounds, style);
  const int rows = draw.one_of({1, 1, 2, 3});
  const bool far = bounds.page > 0 && draw.chance(5);
  const int before_page = far ? bounds.page - draw.between(0, 3) : 0;
  int session = lives.open(far ? 1 : rows, 0, far ? bounds.page : 0);
  if (far) lives.feed_rows(session, {before_page});
  lives.feed(session, std::max(2, bounds.most / 2));
  const int changes = draw.between(1, 4);
  for (int i = 0; i < changes; ++i) {
    session = change(draw, lives, session);
    const bool at_once = i + 1 < changes && draw.chance(20);  // no call before the next change
    if (!at_once) lives.feed(session, lives.draw_feed());
  }
  return lives.take();
}

}  // namespace kvconform
