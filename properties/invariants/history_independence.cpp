// What earlier sessions and neighbours did changes nothing: sessions interleaved on one model,
// sessions closed before, another model loaded and used with the same tokens, the same prompt
// twice, and prompts that are the beginning, the continuation or the sibling of an earlier one.
//
// Source: vllm-mlx #775 (an earlier request bleeds into a later one), vLLM #49125 (a block found
// under a hash it no longer stands for), tt-inference-server #4557 (a slot keeps its last user's
// position), candle-vllm #12, imp #537. Needs: cache.
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/model_variant.h"

namespace kvconform {
namespace {

using Prompt = std::vector<int>;

/// A prompt that an engine with a memory could mistake for an earlier one.
Prompt related_prompt(Draw& draw, const PromptBounds& bounds, const Prompt& earlier) {
  const int length = static_cast<int>(earlier.size());
  const int kind = draw.between(0, 4);
  const int cut = draw.between(1, length);
  const int more = draw.between(1, 4);
  const Prompt fresh = draw_tokens(draw, bounds, more);
  if (kind == 0) return earlier;                                               // the same
  if (kind == 1) return Prompt(earlier.begin(), earlier.begin() + cut);        // its beginning
  Prompt prompt = kind == 2 ? earlier                                          // its continuation
                            : Prompt(earlier.begin(), earlier.begin() + cut);  // its sibling
  prompt.insert(prompt.end(), fresh.begin(), fresh.end());
  if (kind == 4) prompt[0] = (prompt[0] + 1) % bounds.vocab_size;  // alike but for the beginning
  if (static_cast<int>(prompt.size()) > bounds.most) prompt.resize(bounds.most);
  return prompt;
}

struct Reader {
  int session = -1;
  Prompt prompt;
  int fed = 0;
  bool done() const { return fed == static_cast<int>(prompt.size()); }
};

class HistoryIndependence : public GeneratedProperty {
 public:
  const char* name() const override { return "history-independence"; }
  const char* sentence() const override {
    return "What earlier sessions, neighbouring sessions and other models did changes nothing.";
  }
  const char* source() const override {
    return "vllm-mlx #775, vLLM #49125, tt-inference-server #4557, candle-vllm #12";
  }
  std::vector<std::string> needs() const override { return {"cache"}; }

  /// The oracle first, each answer from a model loaded for it alone; then another model with other
  /// keys takes the same calls and stays loaded, its sessions open, while the calls are judged.
  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    const auto other = with_negated_keys(judgement.model, 0);
    std::optional<LoadedModel> neighbour;
    Equivalence how{ask_same_chunks_on_fresh_load, Chunks::same};
    how.between = [&] {
      neighbour.emplace(judgement.subject, *other);
      const ModelConfig config = judgement.model.checkpoint()->config();
      run_calls(judgement.subject, neighbour->id(), test_case.calls, config.vocab_size, false);
    };
    return judge_equivalence(test_case, judgement, how);
  }

 protected:
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const LifeStyle style = draw_style(draw);
    SessionLives lives(draw, bounds, style);
    std::vector<Reader> readers;
    const int number = draw.between(2, 4);
    for (int i = 0; i < number; ++i) {
      const int length = std::min(draw_length(draw, bounds), bounds.most / 2 + 2);
      const bool fresh = readers.empty() || draw.chance(15);
      Reader reader;
      reader.prompt = fresh ? draw_tokens(draw, bounds, length)
                            : related_prompt(draw, bounds, draw.one_of(readers).prompt);
      readers.push_back(std::move(reader));
    }
    interleave(draw, lives, style, std::move(readers));
    return lives.take();
  }

 private:
  static void interleave(Draw& draw, SessionLives& lives, const LifeStyle& style,
                         std::vector<Reader> waiting) {
    const bool one_by_one = draw.chance(40);
    while (!waiting.empty()) {
      const int last = static_cast<int>(waiting.size()) - 1;
      const int index = one_by_one ? 0 : draw.between(0, last);
      Reader& reader = waiting[index];
      if (reader.session < 0) reader.session = lives.open(1);
      const int left = static_cast<int>(reader.prompt.size()) - reader.fed;
      const bool whole = draw.chance(40);
      const int drawn = draw.between(1, left);
      int count = whole ? left : drawn;
      if (!style.chunked && reader.fed > 0) count = 1;
      const auto begin = reader.prompt.begin() + reader.fed;
      lives.feed_tokens(reader.session, Prompt(begin, begin + count));
      reader.fed += count;
      if (!reader.done()) continue;
      const bool closes = draw.chance(50);
      if (closes) lives.close(reader.session);
      waiting.erase(waiting.begin() + index);
    }
  }
};

}  // namespace

std::unique_ptr<Property> history_independence() {
  return std::make_unique<HistoryIndependence>();
}

}  // namespace kvconform
