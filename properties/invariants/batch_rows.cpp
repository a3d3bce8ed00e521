// A row of a batch is that row alone: rows of different lengths, rows without tokens in a call,
// rows that start and stop at different times, rows that cross the window at different times.
//
// Source: model-spec.md, 6.3; maclocal-api #92 (positions from the padded width), omlx #567,
// mlx-vlm #1083, mlx-lm #439 (pads stored in the ring), unsloth #3699. Adapters that pad are tested
// through this. Needs: batch; a case needs ragged only where its rows differ in length.
#include <algorithm>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"

namespace kvconform {
namespace {

class BatchRows : public GeneratedProperty {
 public:
  const char* name() const override { return "batch-rows"; }
  const char* sentence() const override {
    return "A row of a batch comes out as that row alone, whatever the other rows hold and when "
           "they start and stop.";
  }
  const char* source() const override { return "maclocal-api #92, omlx #567, mlx-lm #439"; }
  std::vector<std::string> needs() const override { return {"batch"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    const bool scores = std::any_of(test_case.calls.begin(), test_case.calls.end(),
                                    [](const Call& c) { return c.kind == Call::Kind::score; });
    const Equivalence alone =
        scores ? Equivalence{ask_score} : Equivalence{ask_same_chunks, Chunks::same};
    return judge_equivalence(test_case, judgement, alone);
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const LifeStyle style = draw_style(draw);
    const int batch = draw.one_of({2, 2, 3, 5});
    const bool score = draw.chance(15);
    const bool served = draw.chance(40) && style.ragged && style.chunked && bounds.window > 1;
    if (score || !bounds.cache) return scored(draw, bounds, batch, style.ragged);
    return served ? decoded_in_step(draw, bounds, batch, style) : fed(draw, bounds, batch, style);
  }

 private:
  static std::vector<Call> scored(Draw& draw, const PromptBounds& bounds, int batch, bool ragged) {
    Call call;
    call.kind = Call::Kind::score;
    const int common = draw_length(draw, bounds);
    for (int r = 0; r < batch; ++r) {
      const int own = draw_length(draw, bounds);
      call.tokens.push_back(draw_tokens(draw, bounds, ragged ? own : common));
    }
    return {call};
  }

  /// Each row has a first and a last call; between them it takes tokens of its own number.
  static std::vector<Call> fed(Draw& draw, const PromptBounds& bounds, int batch,
                               const LifeStyle& style) {
    SessionLives lives(draw, bounds, style);
    const int session = lives.open(batch);
    const int steps = draw.between(2, 6);
    std::vector<int> first, last;
    for (int r = 0; r < batch; ++r) {
      const bool late = style.ragged && draw.chance(50);
      first.push_back(late ? draw.between(0, steps - 1) : 0);
      const bool early = style.ragged && draw.chance(30);
      last.push_back(early ? draw.between(first[r], steps - 1) : steps - 1);
    }
    for (int step = 0; step < steps; ++step) {
      const int common = lives.draw_feed();
      std::vector<int> counts;
      for (int r = 0; r < batch; ++r) {
        const int own = lives.draw_feed();
        const bool takes = first[r] <= step && step <= last[r];
        counts.push_back(!style.ragged ? common : takes ? own : 0);
      }
      lives.feed_rows(session, counts);
    }
    return lives.take();
  }

  /// What a server does: unequal prompts, then a token a row at a time until the longest row has
  /// gone past the window (the shortest often has not), then several tokens at once.
  static std::vector<Call> decoded_in_step(Draw& draw, const PromptBounds& bounds, int batch,
                                           const LifeStyle& style) {
    SessionLives lives(draw, bounds, style);
    const int session = lives.open(batch);
    std::vector<int> prompts;
    for (int r = 0; r < batch; ++r) prompts.push_back(draw.between(1, bounds.window));
    lives.feed_rows(session, prompts);
    const int longest = *std::max_element(prompts.begin(), prompts.end());
    const int steps = std::min(bounds.window, 8) + draw.between(0, 2) - longest;
    for (int step = 0; step < std::max(1, steps); ++step)
      lives.feed_rows(session, std::vector<int>(batch, 1));
    const int chunk = draw.between(2, 4);
    lives.feed_rows(session, std::vector<int>(batch, chunk));
    return lives.take();
  }
};

}  // namespace

std::unique_ptr<Property> batch_rows() {
  return std::make_unique<BatchRows>();
}

}  // namespace kvconform
