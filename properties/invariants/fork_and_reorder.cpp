// Copies are independent of each other and of the original, and reordered rows go on from their
// sources, also where several rows have the same source (beam search).
//
// Source: subject-protocol.md (`fork`, `reorder`); omlx #567 (mixed ring and full batch caches);
// the caches of beam search in transformers, whose layers are reordered one by one. Needs: cache;
// a case needs fork or reorder, whichever it uses.
#include <algorithm>

#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"

namespace kvconform {
namespace {

class ForkAndReorder : public GeneratedProperty {
 public:
  const char* name() const override { return "fork-and-reorder"; }
  const char* sentence() const override {
    return "Copies of a session live independently of each other and of the original, and "
           "reordered rows go on from their sources.";
  }
  const char* source() const override { return "subject-protocol.md, omlx #567"; }
  std::vector<std::string> needs() const override { return {"cache"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return judge_equivalence(test_case, judgement, {ask_same_chunks, Chunks::same});
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    SessionLives lives(draw, bounds, draw_style(draw));
    const int wanted = draw.between(0, 3);  // 0: forks only, 1: reorders only, 2, 3: both
    const int batch = wanted == 0 ? draw.one_of({1, 1, 2}) : draw.one_of({2, 3, 4});
    const int first = lives.open(batch);
    const bool wraps = draw.chance(50);
    const int begin = lives.draw_feed();
    wraps ? lives.feed_past_window(first) : lives.feed(first, begin);
    const int steps = draw.between(1, 4);
    for (int i = 0; i < steps; ++i) {
      const int session = draw.one_of(lives.alive());
      const bool forks = wanted == 0 || (wanted >= 2 && draw.chance(50));
      forks ? static_cast<void>(lives.fork(session)) : lives.reorder(session);
      feed_all(draw, lives);
    }
    return lives.take();
  }

 private:
  /// Everybody alive goes on with other tokens, in an order of its own.
  static void feed_all(Draw& draw, SessionLives& lives) {
    std::vector<int> sessions = lives.alive();
    const bool newest_first = draw.chance(50);
    if (newest_first) std::reverse(sessions.begin(), sessions.end());
    for (int session : sessions) {
      const bool rests = sessions.size() > 1 && draw.chance(15);
      const int count = draw.one_of({1, 2, 4});
      if (!rests) lives.feed(session, count);
    }
  }
};

}  // namespace

std::unique_ptr<Property> fork_and_reorder() {
  return std::make_unique<ForkAndReorder>();
}

}  // namespace kvconform
