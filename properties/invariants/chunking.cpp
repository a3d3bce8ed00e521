// How a prompt is cut into calls changes nothing: chunks of 1, 2, W − 1, W, W + 1, 2W, longer than
// the window, at random, and a chunk after decoding give the logits of one call.
//
// Source: model-spec.md, section 6.2; executorch #21857, mlxcel #885, mlx-examples #1000.
// Needs: cache, chunked.
#include "properties/equivalence.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"

namespace kvconform {
namespace {

class Chunking : public GeneratedProperty {
 public:
  const char* name() const override { return "chunking"; }
  const char* sentence() const override {
    return "How a prompt is cut into calls changes no logit, also around and past the window.";
  }
  const char* source() const override {
    return "executorch #21857, mlxcel #885, mlx-examples #1000";
  }
  std::vector<std::string> needs() const override { return {"cache", "chunked"}; }

  bool holds_of_any_case() const override { return true; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    Equivalence how{ask_one_shot};
    how.names = {"in these chunks", "in one call"};
    return judge_equivalence(test_case, judgement, how);
  }

 protected:
  ModelWishes wishes() const override {
    ModelWishes wishes;
    wishes.sliding = true;
    return wishes;
  }
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const int batch = draw.chance(80) ? 1 : 2;
    return draw_chunked_prompt(draw, bounds, batch);
  }
};

}  // namespace

std::unique_ptr<Property> chunking() {
  return std::make_unique<Chunking>();
}

}  // namespace kvconform
