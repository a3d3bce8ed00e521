// A restored session goes on as the saved one, in every state: empty, before and after the window
// wrapped, between the chunks of a prompt, and straight after a fork, a reordering, a rewind or
// another restore, which engines put off until the next call. Saving changes nothing, and a file
// outlives the session it came from, its load of the model, and the process that wrote it: a third
// of the cases restore into another load, a third in another instance of the subject.
//
// Source: llama.cpp #25297 (windowed cells not brought back past the window), vllm-metal #144
// (tensors restored, positions not), vllm-mlx #689. Needs: cache, save; a case also what changes
// the session before.
#include "properties/case_choice.h"
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/two_loads.h"

namespace kvconform {
namespace {

class SaveAndRestore : public GeneratedProperty {
 public:
  const char* name() const override { return "save-and-restore"; }
  const char* sentence() const override {
    return "A restored session, also in another load or process, goes on as the saved one would "
           "have; saving changes nothing.";
  }
  const char* source() const override { return "llama.cpp #25297, vllm-metal #144, vllm-mlx #689"; }
  std::vector<std::string> needs() const override { return {"cache", "save"}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    const auto where = static_cast<Where>(choice_of(test_case, "restored into") % 3);
    if (where == Where::same_load)
      return judge_equivalence(test_case, judgement, {ask_same_chunks, Chunks::same});
    const bool elsewhere = where == Where::another_instance && judgement.another;
    TwoLoads two(
        judgement.subject,
        elsewhere ? judgement.another : [&]() -> Subject& { return judgement.subject; });
    Judgement of_two{judgement.model, two, judgement.against, judgement.yardstick,
                     judgement.traces};
    Verdict verdict = judge_equivalence(test_case, of_two, {ask_same_chunks, Chunks::same});
    if (verdict.kind == VerdictKind::differs)
      verdict.message = (elsewhere ? "restored by another instance of the subject: "
                                   : "restored into another load of the model: ") +
                        verdict.message;
    return verdict;
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    SessionLives lives(draw, bounds, draw_style(draw));
    int session = lives.open(draw.one_of({1, 2, 3}));
    const int rounds = draw.between(1, 2);
    for (int i = 0; i < rounds; ++i) {
      reach_a_state(draw, lives, session);
      const bool at_once = draw.chance(40);
      if (at_once) session = change_without_a_call(draw, lives, session);
      session = through_a_file(draw, lives, session);
      lives.feed(session, lives.draw_feed());
    }
    return lives.take();
  }

 private:
  enum class Where { same_load, another_load, another_instance };

  static void reach_a_state(Draw& draw, SessionLives& lives, int session) {
    const int state = draw.between(0, 5);
    const int count = lives.draw_feed();
    if (state == 0) return;  // empty, or just as restored
    if (state <= 2) lives.feed(session, count);
    if (state >= 3) lives.feed_past_window(session);
    if (state == 4) lives.feed(session, count);
    if (state == 5) lives.rewind(session);
  }

  /// Answers which session is to be saved: mostly the copy, for what it holds may not be there yet.
  static int change_without_a_call(Draw& draw, SessionLives& lives, int session) {
    const int changes = draw.one_of({1, 1, 2});
    for (int i = 0; i < changes; ++i) {
      const int kind = draw.between(0, 5);
      const bool copy_goes_on = draw.chance(80);
      if (kind == 0) {
        lives.rewind(session);
      } else if (kind == 1) {
        lives.save(session);
        session = lives.restore(session);
      } else if (kind <= 3 && lives.batch(session) > 1) {
        lives.reorder(session);
      } else {
        const int copy = lives.fork(session);
        if (copy_goes_on) session = copy;
      }
    }
    return session;
  }

  /// What happens between the save and the restore must not show in the restored session.
  static int through_a_file(Draw& draw, SessionLives& lives, int session) {
    lives.save(session);
    const int meanwhile = draw.between(0, 3);
    const int count = draw.one_of({1, 2, 4});
    if (meanwhile == 1 || meanwhile == 2) lives.feed(session, count);
    if (meanwhile == 2) lives.rewind(session);
    if (meanwhile == 3) lives.close(session);
    const bool twice = draw.chance(25);
    if (twice) lives.feed(lives.restore(session), count);
    const int restored = lives.restore(session);
    const bool both = meanwhile != 3 && draw.chance(40);
    if (both) lives.feed(session, count);  // the saved session lives on
    return restored;
  }
};

}  // namespace

std::unique_ptr<Property> save_and_restore() {
  return std::make_unique<SaveAndRestore>();
}

}  // namespace kvconform
