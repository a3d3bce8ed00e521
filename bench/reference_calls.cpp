// Calls of whole models on the reference. Every result has the bits of `score`, which uses no
// cache.
#include <fmt/format.h>

#include <algorithm>

#include "bench/bench_models.h"
#include "bench/counters.h"
#include "bench/model_cost.h"
#include "bench/planted_slow_down.h"
#include "bench/reference_workloads.h"
#include "reference/model.h"

namespace kvconform::bench {
namespace {

struct Shape {
  Family family = Family::gemma3n;
  int thirds_shared = 1;
  int rows = 1;
  int context = 0;  ///< tokens that a row already holds
  int tokens = 1;   ///< new ones a row
  int chunk = 0;    ///< so many at a time; 0: all at once
  int hidden = 128;
  int real_shared = -1;  ///< not below 0: gemma3n-e2b with so many consumers instead
};

std::shared_ptr<const Checkpoint> checkpoint_of(const Shape& shape) {
  if (shape.real_shared >= 0) return real_size_checkpoint("gemma3n-e2b", shape.real_shared);
  return bench_checkpoint(shape.family, shape.thirds_shared, shape.hidden);
}

/// Opens with `context` tokens; a run gives `tokens` more to each row and takes them back.
class ReferenceCall : public Workload {
 public:
  explicit ReferenceCall(const Shape& shape)
      : shape_(shape),
        model_(checkpoint_of(shape)),
        prompt_(bench_prompt(model_.config(), shape.context + shape.tokens)),
        scored_(model_.score({prompt_})),
        cache_(model_.open({.batch = shape.rows,
                            .capacity = shape.context + shape.tokens,
                            .margin = shape.tokens})) {
    if (shape.context > 0) model_.extend(cache_, rows_of(0, shape.context));
  }

  void run() override {
    once();
    if (shape_.context > 0 && shape_.tokens == 1 && decodes_twice(steps_)) once();
  }

  std::string wrong() override {
    const float* expected =
        scored_.row(shape_.context + shape_.tokens - logits_.rows / shape_.rows);
    const std::size_t count = logits_.values.size() / shape_.rows;
    for (int r = 0; r < shape_.rows; ++r)
      if (!std::equal(expected, expected + count, logits_.values.data() + r * count))
        return fmt::format("row {} differs from score", r);
    return "";
  }

  Counts counts() override {
    const ModelCost cost(model_.config(), model_.plan(), shape_.real_shared < 0 ? 4 : 2);
    const int chunk = shape_.chunk > 0 ? shape_.chunk : shape_.tokens;
    Counts counts = {{kTokens, double(shape_.rows) * shape_.tokens}};
    for (int done = 0; done < shape_.tokens; done += chunk) {
      const int now = std::min(chunk, shape_.tokens - done);
      const CallCost call =
          cost.of({.rows = shape_.rows, .past = shape_.context + done, .tokens = now});
      counts[kBytesNeeded] += call.bytes();
      counts[kMultiplyAdds] += call.multiply_adds;
    }
    model_.extend(cache_, rows_of(shape_.context, shape_.context + shape_.tokens));
    for (const LayerPlan& layer : model_.plan()) counts[kCacheBytes] += double(cache_.bytes(layer));
    cache_.rewind(std::vector<int>(shape_.rows, shape_.context));
    return counts;
  }

 private:
  std::vector<std::vector<int>> rows_of(int begin, int end) const {
    return std::vector<std::vector<int>>(
        shape_.rows, std::vector<int>(prompt_.begin() + begin, prompt_.begin() + end));
  }

  void once() {
    const int all = shape_.context + shape_.tokens;
    const int chunk = shape_.chunk > 0 ? shape_.chunk : shape_.tokens;
    for (int at = shape_.context; at < all; at += chunk)
      logits_ = model_.extend(cache_, rows_of(at, std::min(all, at + chunk)));
    cache_.rewind(std::vector<int>(shape_.rows, shape_.context));
  }

  Shape shape_;
  Model<Float32> model_;
  std::vector<int> prompt_;
  Matrix<float> scored_, logits_;
  Model<Float32>::Cache cache_;
  long steps_ = 0;
};

void add(Workloads& workloads, const std::string& name, const Shape& shape,
         Size from = Size::smoke) {
  workloads.push_back(
      {"reference/" + name,
       [shape]() -> std::unique_ptr<Workload> { return std::make_unique<ReferenceCall>(shape); },
       from});
}

/// The k-th of a row of growing sizes: the first three are smoke, one more each for the others.
Size size_of(int k) {
  return k < 3 ? Size::smoke : k == 3 ? Size::standard : Size::deep;
}

/// What two builds are compared by: models that fit into a core's own cache, so that what other
/// programs do to the shared one does not show.
void add_small(Workloads& workloads) {
  for (Family family : {Family::gemma3n, Family::gemma4}) {
    const char* name = to_string(family);
    add(workloads, fmt::format("small/decode/{}/context:16", name),
        {.family = family, .context = 16, .hidden = 32});
    add(workloads, fmt::format("small/prefill/{}/tokens:16", name),
        {.family = family, .tokens = 16, .hidden = 32});
  }
}

/// A published model as it is, and as if every layer kept its own keys and values.
void add_real_size(Workloads& workloads) {
  for (int shared : {0, 10}) {
    const std::string what = fmt::format("gemma3n-e2b/layers:30/shared:{}", shared);
    add(workloads, "real_size/decode/" + what + "/context:4", {.context = 4, .real_shared = shared},
        Size::deep);
    add(workloads, "real_size/prefill/" + what + "/tokens:4", {.tokens = 4, .real_shared = shared},
        Size::deep);
  }
}

}  // namespace

void add_reference_calls(Workloads& workloads) {
  add_small(workloads);
  add_real_size(workloads);
  int k = 0;
  for (int tokens : {16, 64, 192, 512, 1024})
    add(workloads, fmt::format("prefill/tokens:{}", tokens), {.tokens = tokens}, size_of(k++));
  k = 0;
  for (int context : {16, 64, 256, 1024, 4096})
    add(workloads, fmt::format("decode/context:{}", context), {.context = context}, size_of(k++));
  k = 0;
  for (int chunk : {1, 8, 64, 16, 32})
    add(workloads, fmt::format("chunked_prefill/tokens:64/chunk:{}", chunk),
        {.tokens = 64, .chunk = chunk}, size_of(k++));
  for (Family family : {Family::gemma3n, Family::gemma4})
    for (int thirds : {0, 1, 2}) {
      const Size from = family == Family::gemma3n ? Size::smoke : Size::standard;
      const std::string what = fmt::format("{}/layers:9/shared:{}", to_string(family), 3 * thirds);
      add(workloads, "sharing/prefill/" + what + "/tokens:64",
          {.family = family, .thirds_shared = thirds, .tokens = 64}, from);
      add(workloads, "sharing/decode/" + what + "/context:256",
          {.family = family, .thirds_shared = thirds, .context = 256}, from);
    }
  k = 0;
  for (int rows : {1, 2, 4, 8, 16})
    add(workloads, fmt::format("batch/rows:{}/context:64", rows), {.rows = rows, .context = 64},
        size_of(k++));
}

}  // namespace kvconform::bench
