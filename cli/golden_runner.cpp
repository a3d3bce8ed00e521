// Model<Float32> behind the interface of goldens (see golden_runner.h).
#include "cli/golden_runner.h"

#include <optional>
#include <utility>

#include "reference/model.h"

namespace kvconform::cli {
namespace {

class ReferenceRunner : public GoldenRunner {
 public:
  ReferenceRunner(std::shared_ptr<const Checkpoint> checkpoint, int threads)
      : model_(std::move(checkpoint), threads) {}

  Logits score(const std::vector<int>& tokens) override {
    return to_logits(model_.score({tokens}));
  }
  void open(int capacity) override {
    CacheShape shape;
    shape.batch = 1;
    shape.capacity = capacity;
    cache_.emplace(model_.open(shape));
  }
  Logits extend(const std::vector<int>& tokens) override {
    return to_logits(model_.extend(*cache_, {tokens}));
  }
  void rewind(int length) override { cache_->rewind({length}); }

 private:
  Model<Float32> model_;
  std::optional<Model<Float32>::Cache> cache_;
};

}  // namespace

RunnerFactory reference_runner(int threads) {
  return [threads](std::shared_ptr<const Checkpoint> checkpoint) {
    return std::make_unique<ReferenceRunner>(std::move(checkpoint), threads);
  };
}

}  // namespace kvconform::cli
