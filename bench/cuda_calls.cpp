// Calls of whole models on the CUDA engine. Every result has the bits of the engine's own score,
// and that is near the reference in double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/bench_models.h"
#include "bench/counters.h"
#include "bench/cuda_workloads.h"
#include "bench/model_cost.h"
#include "bench/planted_slow_down.h"
#include "cuda/engine.h"
#include "reference/model.h"

namespace kvconform::bench {
namespace {

constexpr int kHidden = 32;

struct Shape {
  Family family = Family::gemma3n;
  int thirds_shared = 1;
  int rows = 1;
  int context = 0;         ///< tokens that a row already holds
  int tokens = 1;          ///< new ones a row
  int chunk = 0;           ///< so many at a time; 0: all at once
  bool last_only = false;  ///< logits of the last token only
  bool skip = true;        ///< rows that nobody asked for leave after the last owner
};

class CudaCall : public Workload {
 public:
  explicit CudaCall(const Shape& shape)
      : shape_(shape),
        checkpoint_(bench_checkpoint(shape.family, shape.thirds_shared, kHidden)),
        engine_(std::make_shared<const cuda::Engine>(checkpoint_)),
        prompt_(bench_prompt(engine_->config(), shape.context + shape.tokens)),
        session_(engine_, options()) {
    if (shape.context > 0) session_.extend(rows_of(0, shape.context), cuda::Wanted::none);
  }

  void run() override {
    if (counted_) {
      once();
      if (shape_.context > 0 && shape_.tokens == 1 && decodes_twice(steps_)) once();
      return;
    }
    dv::emu::KernelCounter counter;
    once();
    counted_ = counter.total();
  }

  std::string wrong() override {
    if (scored_.empty()) scored_ = engine_->score({prompt_});
    const std::size_t v = engine_->config().vocab_size, row = logits_.size() / shape_.rows;
    for (int r = 0; r < shape_.rows; ++r)
      if (!std::equal(scored_.end() - row, scored_.end(), logits_.begin() + r * row))
        return fmt::format("row {} differs from score", r);
    return far_from_reference(v);
  }

  Counts counts() override {
    Counts counts = counts_of(*counted_);
    const double tokens = double(shape_.rows) * shape_.tokens;
    counts[kTokens] = tokens;
    counts["launches_per_token"] = counts[kLaunches] / tokens;
    const ModelCost cost(engine_->config(), engine_->plan(), sizeof(float));
    for (int done = 0; done < shape_.tokens; done += chunk()) {
      const CallCost call = cost.of({.rows = shape_.rows,
                                     .past = shape_.context + done,
                                     .tokens = std::min(chunk(), shape_.tokens - done),
                                     .last_only = shape_.last_only && shape_.skip});
      counts[kBytesNeeded] += call.bytes();
      counts[kMultiplyAdds] += call.multiply_adds;
    }
    for (const LayerPlan& layer : engine_->plan())
      if (layer.owns_keys()) counts[kCacheBytes] += double(session_.bytes(layer));
    return counts;
  }

 private:
  int chunk() const { return shape_.chunk > 0 ? shape_.chunk : shape_.tokens; }

  cuda::SessionOptions options() const {
    cuda::SessionOptions options;
    options.batch = shape_.rows;
    options.capacity = shape_.context + shape_.tokens;
    options.chunk = std::max(shape_.rows * shape_.context, shape_.rows * shape_.tokens);
    options.reserve = shape_.tokens;
    options.fast_prefill = shape_.skip;
    return options;
  }

  std::vector<std::vector<int>> rows_of(int begin, int end) const {
    return std::vector<std::vector<int>>(
        shape_.rows, std::vector<int>(prompt_.begin() + begin, prompt_.begin() + end));
  }

  void once() {
    const int all = shape_.context + shape_.tokens;
    const auto wanted = shape_.last_only ? cuda::Wanted::last : cuda::Wanted::all;
    for (int at = shape_.context; at < all; at += chunk())
      logits_ = session_.extend(rows_of(at, std::min(all, at + chunk())), wanted);
    session_.rewind(std::vector<int>(shape_.rows, shape_.context));
  }

  /// The last row against the reference in double. A capped logit is below 30; 1e-3 is what a
  /// healthy engine stays below by a factor of 20 on models of this size (planted_fault_test).
  std::string far_from_reference(std::size_t vocabulary) const {
    const auto truth = Model<Float64>(checkpoint_).score({prompt_});
    for (std::size_t i = 0; i < vocabulary; ++i) {
      const double expected = truth.values[truth.values.size() - vocabulary + i];
      const double seen = *(logits_.end() - vocabulary + i);
      if (!(std::fabs(seen - expected) <= 1e-3))
        return fmt::format("logit {} is {:.9g}, the reference's {:.9g}", i, seen, expected);
    }
    return "";
  }

  Shape shape_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::shared_ptr<const cuda::Engine> engine_;
  std::vector<int> prompt_;
  std::vector<float> scored_, logits_;
  cuda::Session session_;
  std::optional<dv::emu::KernelCounts> counted_;
  long steps_ = 0;
};

void add(Workloads& workloads, const std::string& name, const Shape& shape,
         Size from = Size::smoke) {
  workloads.push_back(
      {"cuda/" + name,
       [shape]() -> std::unique_ptr<Workload> { return std::make_unique<CudaCall>(shape); }, from});
}

Size size_of(int k, int smoke) {
  return k < smoke ? Size::smoke : k == smoke ? Size::standard : Size::deep;
}

void add_sharing(Workloads& workloads, Family family, Size from) {
  for (int thirds : {0, 1, 2}) {
    const std::string what = fmt::format("{}/layers:9/shared:{}", to_string(family), 3 * thirds);
    add(workloads, "sharing/decode/" + what + "/context:64",
        {.family = family, .thirds_shared = thirds, .context = 64}, from);
    for (bool skip : {false, true})
      add(workloads, fmt::format("sharing/prefill/{}/tokens:16/skip:{}", what, int(skip)),
          {.family = family,
           .thirds_shared = thirds,
           .tokens = 16,
           .last_only = true,
           .skip = skip},
          from);
  }
}

}  // namespace

void add_cuda_calls(Workloads& workloads) {
  int k = 0;
  for (int tokens : {4, 16, 64, 200})
    add(workloads, fmt::format("prefill/tokens:{}", tokens), {.tokens = tokens}, size_of(k++, 2));
  k = 0;
  for (int context : {16, 64, 200, 500})
    add(workloads, fmt::format("decode/context:{}", context), {.context = context},
        size_of(k++, 2));
  k = 0;
  for (int chunk : {4, 1, 8})
    add(workloads, fmt::format("chunked_prefill/tokens:16/chunk:{}", chunk),
        {.tokens = 16, .chunk = chunk}, size_of(k++, 1));
  add_sharing(workloads, Family::gemma3n, Size::smoke);
  add_sharing(workloads, Family::gemma4, Size::standard);
  k = 0;
  for (int rows : {1, 4, 8, 16})
    add(workloads, fmt::format("batch/rows:{}/context:16", rows), {.rows = rows, .context = 16},
        size_of(k++, 2));
}

}  // namespace kvconform::bench
