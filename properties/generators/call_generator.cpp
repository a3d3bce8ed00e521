// Drawing prompts, chunkings and the lives of sessions.
#include "properties/generators/call_generator.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "properties/generators/model_generator.h"
#include "properties/shrinking.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

/// Margin of every rewind once a window has wrapped: what a subject with a margin of 8 must serve.
constexpr int kRewindMargin = 8;

Call open_call(int session, int batch, int capacity) {
  Call call;
  call.kind = Call::Kind::open;
  call.session = session;
  call.batch = batch;
  call.capacity = capacity;
  return call;
}

Call extend_call(int session, TokenRows rows) {
  Call call;
  call.kind = Call::Kind::extend;
  call.session = session;
  call.tokens = std::move(rows);
  return call;
}

Call derived_call(Call::Kind kind, int session, int from) {
  Call call;
  call.kind = kind;
  call.session = session;
  call.from = from;
  return call;
}

Call numbers_call(Call::Kind kind, int session, std::vector<int> numbers) {
  Call call;
  call.kind = kind;
  call.session = session;
  call.numbers = std::move(numbers);
  return call;
}

/// A session under construction: what calls on it are valid depends on its lengths.
class Life {
 public:
  Life(Draw& draw, const PromptBounds& bounds, int batch, int capacity)
      : draw_(draw), bounds_(bounds), capacity_(capacity), lengths_(batch, 0), longest_(batch, 0) {
    calls_.push_back(open_call(0, batch, capacity));
  }

  void feed(int most_tokens) {
    TokenRows rows;
    for (int& length : lengths_) {
      const int room = std::min(most_tokens, capacity_ - length);
      const int count = draw_.chance(15) ? 0 : draw_.between(std::min(1, room), room);
      rows.push_back(draw_tokens(draw_, bounds_, count));
      length += count;
    }
    for (std::size_t r = 0; r < lengths_.size(); ++r)
      longest_[r] = std::max(longest_[r], lengths_[r]);
    calls_.push_back(extend_call(session_, std::move(rows)));
  }

  void change() {
    switch (draw_.between(0, 3)) {
      case 0:
        return rewind();
      case 1:
        return reorder();
      case 2:
        return move_to_copy(Call::Kind::fork);
      default:
        calls_.push_back(numbers_call(Call::Kind::save, session_, {}));
        return move_to_copy(Call::Kind::restore);
    }
  }

  std::vector<Call> take() { return std::move(calls_); }

 private:
  /// Shortest length that a subject with the margin can still serve.
  int shortest(std::size_t row) const {
    const bool wrapped = bounds_.window > 0 && longest_[row] > bounds_.window;
    return wrapped ? std::clamp(longest_[row] - kRewindMargin, 0, lengths_[row]) : 0;
  }

  void rewind() {
    for (std::size_t r = 0; r < lengths_.size(); ++r) {
      lengths_[r] = draw_.between(shortest(r), lengths_[r]);
    }
    calls_.push_back(numbers_call(Call::Kind::rewind, session_, lengths_));
  }

  void reorder() {
    std::vector<int> sources, lengths, longest;
    for (std::size_t r = 0; r < lengths_.size(); ++r) {
      const int source = draw_.between(0, static_cast<int>(lengths_.size()) - 1);
      sources.push_back(source);
      lengths.push_back(lengths_[source]);
      longest.push_back(longest_[source]);
    }
    lengths_ = lengths;
    longest_ = longest;
    calls_.push_back(numbers_call(Call::Kind::reorder, session_, sources));
  }

  /// Goes on with a copy; sometimes the original is fed other tokens first, which the copy must not
  /// see.
  void move_to_copy(Call::Kind kind) {
    const int copy = ++sessions_;
    calls_.push_back(derived_call(kind, copy, session_));
    if (draw_.chance(50)) {
      TokenRows rows;
      for (int length : lengths_) {
        rows.push_back(draw_tokens(draw_, bounds_, std::min(2, capacity_ - length)));
      }
      calls_.push_back(extend_call(session_, std::move(rows)));
    }
    session_ = copy;
  }

  Draw& draw_;
  const PromptBounds& bounds_;
  int capacity_, session_ = 0, sessions_ = 0;
  std::vector<int> lengths_, longest_;
  std::vector<Call> calls_;
};

}  // namespace

PromptBounds prompt_bounds(const ModelSpec& model, CaseSize size) {
  const ModelConfig config = config_of(model);
  PromptBounds bounds;
  bounds.vocab_size = std::min(
      config.vocab_size, config.family == Family::gemma4 && config.hidden_size_per_layer_input > 0
                             ? config.vocab_size_per_layer_input
                             : config.vocab_size);
  const bool slides =
      std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::sliding) > 0;
  bounds.window = slides ? config.sliding_window : 0;
  bounds.cache = !config.bidirectional_all;
  bounds.least = size == CaseSize::smoke ? 3 : 5;
  bounds.most = size == CaseSize::smoke ? 12 : size == CaseSize::deep ? 96 : 24;
  if (size == CaseSize::emulated && model.folder.empty() && has_long_prompts(model.weights)) {
    bounds.least = 65;
    bounds.most = 90;
  }
  return bounds;
}

std::vector<int> draw_tokens(Draw& draw, const PromptBounds& bounds, int count) {
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(draw.between(0, bounds.vocab_size - 1));
  return tokens;
}

int draw_length(Draw& draw, const PromptBounds& bounds) {
  const int anywhere = draw.between(bounds.least, bounds.most);
  const int windows = draw.between(1, 2);
  const int offset = draw.between(-1, 1);
  const bool near_window = draw.chance(40);
  if (bounds.window == 0 || !near_window) return anywhere;
  return std::clamp(windows * bounds.window + offset, 1, bounds.most);
}

std::vector<int> draw_chunks(Draw& draw, const PromptBounds& bounds, int total) {
  const int w = std::max(1, bounds.window);
  const int fixed = draw.one_of({1, 2, 3, w - 1, w, w + 1, 2 * w, total});
  const bool at_random = draw.chance(35);
  const int decoded = draw.chance(30) ? draw.between(1, 3) : 0;  // single tokens before the rest
  std::vector<int> chunks;
  for (int left = total; left > 0; left -= chunks.back()) {
    const int drawn = draw.between(1, left);
    int chunk = at_random ? drawn : std::clamp(fixed, 1, left);
    const int index = static_cast<int>(chunks.size());
    if (index >= 1 && index <= decoded) chunk = 1;
    chunks.push_back(chunk);
  }
  return chunks;
}

std::vector<Call> draw_chunked_prompt(Draw& draw, const PromptBounds& bounds, int batch) {
  TokenRows prompts;
  std::vector<std::vector<int>> chunks;
  std::size_t steps = 0;
  int longest = 0;
  for (int r = 0; r < batch; ++r) {
    const int length = draw_length(draw, bounds);
    prompts.push_back(draw_tokens(draw, bounds, length));
    chunks.push_back(draw_chunks(draw, bounds, length));
    steps = std::max(steps, chunks.back().size());
    longest = std::max(longest, length);
  }
  std::vector<Call> calls = {open_call(0, batch, longest + draw.between(0, 3))};
  std::vector<int> fed(batch, 0);
  for (std::size_t step = 0; step < steps; ++step) {
    TokenRows rows(batch);
    for (int r = 0; r < batch; ++r) {
      if (step >= chunks[r].size()) continue;
      const auto begin = prompts[r].begin() + fed[r];
      rows[r].assign(begin, begin + chunks[r][step]);
      fed[r] += chunks[r][step];
    }
    calls.push_back(extend_call(0, std::move(rows)));
  }
  return calls;
}

std::vector<Call> draw_session_life(Draw& draw, const PromptBounds& bounds) {
  const int batch = draw.one_of({1, 1, 2, 3});
  const int capacity = std::max(bounds.least + 2, bounds.most);
  Life life(draw, bounds, batch, capacity);
  life.feed(std::max(2, bounds.most / 2));
  const int changes = draw.between(1, 4);
  for (int i = 0; i < changes; ++i) {
    life.change();
    life.feed(draw.one_of({1, 2, std::max(1, bounds.window), bounds.window + 1, 6}));
  }
  return life.take();
}

std::vector<Call> draw_score(Draw& draw, const PromptBounds& bounds) {
  Call call;
  call.kind = Call::Kind::score;
  const int rows = draw.one_of({1, 1, 2, 3});
  for (int r = 0; r < rows; ++r) {
    const int length = draw_length(draw, bounds);
    call.tokens.push_back(draw_tokens(draw, bounds, length));
  }
  return {call};
}

}  // namespace kvconform
