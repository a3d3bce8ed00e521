// After a rewind (0, 1, k, all tokens; before the window wrapped, at it and past it within the
// margin) what follows is what a session gives that never took the dropped tokens.
//
// Source: mlx-lm #1486 (stale keys), mlx-swift-lm #424 (no rewind after the wrap, nothing
// reported), mlx-vlm #1155 (all rows go back by the same number), llama.cpp #29045 (positions
// restart), mlx-lm #1512. Needs: cache, rewind; past the wrap also a margin.
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"

namespace kvconform {
namespace {

class Rollback : public GeneratedProperty {
 public:
  const char* name() const override { return "rollback"; }
  const char* sentence() const override {
    return "What follows a rewind equals a session that never took the dropped tokens.";
  }
  const char* source() const override {
    return "mlx-lm #1486, mlx-swift-lm #424, mlx-vlm #1155, llama.cpp #29045";
  }
  std::vector<std::string> needs() const override { return {"cache", "rewind"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return judge_equivalence(test_case, judgement, {ask_same_chunks, Chunks::same});
  }

 protected:
  ModelWishes wishes() const override {
    ModelWishes wishes;
    wishes.sliding = true;
    return wishes;
  }

  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    SessionLives lives(draw, bounds, draw_style(draw));
    const int batch = draw.one_of({1, 1, 1, 2, 3});
    const int session = lives.open(batch);
    const bool wraps = draw.chance(65);
    const int begin = lives.draw_feed();
    wraps ? lives.feed_past_window(session) : lives.feed(session, begin);
    const int rewinds = draw.between(1, 3);
    for (int i = 0; i < rewinds; ++i) {
      lives.rewind(session);
      const int next = lives.draw_feed();
      lives.feed(session, next);
      const bool again = draw.chance(40);
      if (again) lives.feed(session, next);
    }
    return lives.take();
  }
};

}  // namespace

std::unique_ptr<Property> rollback() {
  return std::make_unique<Rollback>();
}

}  // namespace kvconform
