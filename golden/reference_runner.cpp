// The float32 reference behind the calls of a recipe.
#include "golden/reference_runner.h"

#include "reference/model.h"

namespace kvconform {
namespace {

class ReferenceRunner : public GoldenRunner {
 public:
  explicit ReferenceRunner(std::shared_ptr<const Checkpoint> checkpoint) : model_(checkpoint) {}

  Logits score(const std::vector<int>& tokens) override {
    return to_logits(model_.score({tokens}));
  }
  void open(int capacity) override {
    // The whole session may be rewound: what a golden keeps is bits, not memory.
    cache_.emplace(model_.open({.batch = 1, .capacity = capacity, .margin = capacity}));
  }
  Logits extend(const std::vector<int>& tokens) override {
    return to_logits(model_.extend(cache_.value(), {tokens}));
  }
  void rewind(int length) override { cache_.value().rewind({length}); }

 private:
  Model<Float32> model_;
  std::optional<Model<Float32>::Cache> cache_;
};

}  // namespace

RunnerFactory reference_runner() {
  return [](std::shared_ptr<const Checkpoint> checkpoint) {
    return std::make_unique<ReferenceRunner>(std::move(checkpoint));
  };
}

}  // namespace kvconform
