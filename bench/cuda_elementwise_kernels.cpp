// Kernels that compute each element on its own: embedding, AltUp, gates, experts, factors, moves.
#include <algorithm>
#include <cmath>

#include "bench/cuda_kernel.h"
#include "bench/cuda_workloads.h"
#include "cuda/kernels/kernels.h"

namespace kvconform::bench {
namespace {

using Array = KernelSetUp::Array;
using Expected = KernelSetUp::Expected;

constexpr double kFloat = sizeof(float);
constexpr int kTokens4 = 4, kWidth = 256, kStreams = 4, kRows = 8;
constexpr std::size_t kCount = std::size_t(kTokens4) * kWidth;

/// Off by a few roundings of numbers up to `magnitude`.
Expected near(double value, double magnitude) {
  return {value, 8 * kRounding * (magnitude + std::fabs(value))};
}

const std::vector<int> kIds = {3, 0, 7, 3};

void embedding(KernelSetUp& set) {
  const Array table = set.numbers("table", std::size_t(kRows) * kWidth);
  const Array y = set.output("y", kCount);
  const int* ids = set.integers("ids", kIds);
  set.launch = [=] { cuda::embed(table.device, ids, 16.f, y.device, kTokens4, kWidth); };
  set.result = y;
  set.expected = [=](std::size_t i) {
    return near(16 * table[std::size_t(kIds[i / kWidth]) * kWidth + i % kWidth], 0);
  };
  set.bytes_needed = kFloat * (3.0 * kWidth + kCount) + kTokens4 * sizeof(int);  // 3 rows named
}

void per_layer_inputs(KernelSetUp& set) {
  const Array q = set.numbers("q", kCount);
  const Array table = set.numbers("table", std::size_t(kRows) * kWidth);
  const Array p = set.output("p", kCount);
  const int* ids = set.integers("ids", kIds);
  set.launch = [=] {
    cuda::join_per_layer_inputs(q.device, table.device, ids, 2.f, p.device, kTokens4, kWidth);
  };
  set.result = p;
  set.expected = [=](std::size_t i) {
    const double u = 2 * table[std::size_t(kIds[i / kWidth]) * kWidth + i % kWidth];
    return near((q[i] + u) / std::sqrt(2.0), std::fabs(q[i]) + std::fabs(u));
  };
  set.bytes_needed = kFloat * (3.0 * kWidth + 2.0 * kCount) + kTokens4 * sizeof(int);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

void dense_gate(KernelSetUp& set) {
  const Array gate = set.numbers("gate", kCount), up = set.numbers("up", kCount);
  const Array out = set.output("out", kCount);
  set.launch = [=] {
    cuda::gated_gelu({gate.device, up.device, out.device, kTokens4, kWidth, kWidth, kWidth});
  };
  set.result = out;
  set.expected = [=](std::size_t i) { return near(gelu(gate[i]) * up[i], 1); };
  set.bytes_needed = kFloat * 3.0 * kCount;
}

void choose(KernelSetUp& set) {
  constexpr int experts = 16, k = 4, tokens = 8;
  const Array router = set.numbers("router", std::size_t(tokens) * experts);
  const Array scale = set.numbers("expert scales", experts);
  const Array weights = set.output("weights", std::size_t(tokens) * k);
  const Array chosen = set.output("chosen", std::size_t(tokens) * k);
  set.launch = [=] {
    cuda::choose_experts(router.device, scale.device, reinterpret_cast<int*>(chosen.device),
                         weights.device, tokens, experts, k);
  };
  set.result = weights;
  set.expected = [=](std::size_t i) {
    const std::size_t first = i / k * experts;
    std::vector<int> order(experts);
    for (int e = 0; e < experts; ++e) order[e] = e;
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return router[first + a] > router[first + b]; });
    order.resize(k);
    std::sort(order.begin(), order.end());
    double sum = 0;
    for (int e : order) sum += std::exp(router[first + e]);
    const int e = order[i % k];
    return near(std::exp(router[first + e]) / sum * scale[e], experts);
  };
  set.bytes_needed = kFloat * (2.0 * tokens * experts + experts + 2.0 * tokens * k);
}

void combine(KernelSetUp& set) {
  constexpr int k = 2;
  const Array results = set.numbers("results", k * kCount);
  const Array weights = set.numbers("weights", std::size_t(kTokens4) * k);
  const Array out = set.output("out", kCount);
  set.launch = [=] {
    cuda::combine_experts(results.device, weights.device, out.device, kTokens4, k, kWidth);
  };
  set.result = out;
  set.expected = [=](std::size_t i) {
    const std::size_t t = i / kWidth, c = i % kWidth;
    double sum = 0;
    for (std::size_t j = 0; j < k; ++j)
      sum += results[(t * k + j) * kWidth + c] * weights[t * k + j];
    return near(sum, k);
  };
  set.bytes_needed = kFloat * ((k + 1.0) * kCount + kTokens4 * k);
}

void predict(KernelSetUp& set) {
  const Array h = set.numbers("streams", kStreams * kCount);
  const Array coefs = set.numbers("coefficients", std::size_t(kTokens4) * kStreams * kStreams);
  const Array out = set.output("predicted", kStreams * kCount);
  set.launch = [=] {
    cuda::altup_predict(h.device, coefs.device, out.device, kTokens4, kStreams, kWidth);
  };
  set.result = out;
  set.expected = [=](std::size_t i) {
    const std::size_t c = i % kWidth, s = i / kWidth % kStreams, t = i / kWidth / kStreams;
    double sum = h[i];
    for (std::size_t r = 0; r < kStreams; ++r)
      sum += coefs[(t * kStreams + s) * kStreams + r] * h[(t * kStreams + r) * kWidth + c];
    return near(sum, kStreams);
  };
  set.bytes_needed = kFloat * (2.0 * kStreams * kCount + kTokens4 * kStreams * kStreams);
}

void correct(KernelSetUp& set) {
  const Array streams = set.numbers("streams", kStreams * kCount);
  const Array coefs = set.numbers("coefficients", std::size_t(kTokens4) * kStreams);
  const Array activated = set.numbers("activated", kCount);
  set.launch = [=] {
    cuda::altup_correct(streams.device, coefs.device, activated.device, 1, kTokens4, kStreams,
                        kWidth);
  };
  set.result = streams;
  set.expected = [=](std::size_t i) {
    const std::size_t c = i % kWidth, s = i / kWidth % kStreams, t = i / kWidth / kStreams;
    const double innovation = activated[t * kWidth + c] - streams[(t * kStreams + 1) * kWidth + c];
    return near(streams[i] + innovation * (coefs[t * kStreams + s] + 1), 4);
  };
  set.bytes_needed = kFloat * (2.0 * kStreams * kCount + kCount + double(kTokens4) * kStreams);
}

void side_streams(KernelSetUp& set) {
  const Array streams = set.numbers("streams", kStreams * kCount), x = set.numbers("x", kCount);
  set.launch = [=] {
    cuda::add_to_side_streams(streams.device, x.device, kTokens4, kStreams, kWidth);
  };
  set.result = streams;
  set.expected = [=](std::size_t i) {
    const std::size_t c = i % kWidth, s = i / kWidth % kStreams, t = i / kWidth / kStreams;
    return near(streams[i] + (s > 0 ? x[t * kWidth + c] : 0), 2);
  };
  set.bytes_needed = kFloat * (2.0 * (kStreams - 1) * kCount + kCount);
}

void mean(KernelSetUp& set) {
  const Array streams = set.numbers("streams", kStreams * kCount);
  const Array out = set.output("out", kCount);
  set.launch = [=] {
    cuda::mean_of_streams(streams.device, out.device, kTokens4, kStreams, kWidth);
  };
  set.result = out;
  set.expected = [=](std::size_t i) {
    double sum = 0;
    for (std::size_t s = 0; s < kStreams; ++s)
      sum += streams[(i / kWidth * kStreams + s) * kWidth + i % kWidth];
    return near(sum / kStreams, kStreams);
  };
  set.bytes_needed = kFloat * (kStreams + 1.0) * kCount;
}

/// y = f(x, other), each element on its own; `others` numbers of the other operand are read.
template <class Launch, class Formula>
void simple(KernelSetUp& set, std::size_t others, bool in_place, Launch launch, Formula formula) {
  const Array x = set.numbers("x", kCount);
  const Array other = set.numbers("other", std::max<std::size_t>(others, 1));
  const Array y = in_place ? x : set.output("y", kCount);
  set.launch = [=] { launch(x.device, other.device, y.device); };
  set.result = y;
  set.expected = [=](std::size_t i) { return near(formula(x[i], other, i), 1); };
  set.bytes_needed = kFloat * (2.0 * kCount + double(others));
}

void add_simple(Workloads& w) {
  add_kernel(w, "tanh_in_place/count:1024", [](KernelSetUp& set) {
    simple(
        set, 0, true, [](float* x, float*, float*) { cuda::tanh_in_place(x, kCount); },
        [](double x, const Array&, std::size_t) { return std::tanh(x); });
  });
  add_kernel(w, "soft_cap/count:1024", [](KernelSetUp& set) {
    simple(
        set, 0, true, [](float* x, float*, float*) { cuda::soft_cap(x, 0.5f, kCount); },
        [](double x, const Array&, std::size_t) { return 0.5 * std::tanh(x / 0.5); });
  });
  add_kernel(w, "scale_all/count:1024", [](KernelSetUp& set) {
    simple(
        set, 1, true, [](float* x, float* f, float*) { cuda::scale_all(x, f, kCount); },
        [](double x, const Array& f, std::size_t) { return x * f[0]; });
  });
  add_kernel(w, "join_halves/count:1024", [](KernelSetUp& set) {
    simple(
        set, kCount, false,
        [](float* x, float* b, float* y) { cuda::join_halves(x, b, y, kCount); },
        [](double x, const Array& b, std::size_t i) { return (x + b[i]) / std::sqrt(2.0); });
  });
  add_kernel(w, "scale_columns/rows:4/width:256", [](KernelSetUp& set) {
    simple(
        set, kWidth, false,
        [](float* x, float* f, float* y) {
          cuda::scale_columns(x, kWidth, f, y, kTokens4, kWidth);
        },
        [](double x, const Array& f, std::size_t i) { return x * f[i % kWidth]; });
  });
  add_kernel(w, "copy_rows/rows:4/width:256", [](KernelSetUp& set) {
    simple(
        set, 0, false,
        [](float* x, float*, float* y) { cuda::copy_rows(x, kWidth, y, kWidth, kTokens4, kWidth); },
        [](double x, const Array&, std::size_t) { return x; });
  });
}

void select(KernelSetUp& set) {
  const std::vector<int> rows = {6, 1};
  const Array x = set.numbers("x", std::size_t(kRows) * kWidth);
  const Array y = set.output("y", rows.size() * kWidth);
  const int* on_device = set.integers("rows", rows);
  set.launch = [=] { cuda::select_rows(x.device, on_device, y.device, 2, kWidth); };
  set.result = y;
  set.expected = [=](std::size_t i) {
    return Expected{x[std::size_t(rows[i / kWidth]) * kWidth + i % kWidth], 0};
  };
  set.bytes_needed = kFloat * 4.0 * kWidth + 2 * sizeof(int);
}

}  // namespace

void add_cuda_elementwise_kernels(Workloads& w) {
  add_kernel(w, "embed/tokens:4/width:256", embedding);
  add_kernel(w, "join_per_layer_inputs/tokens:4/width:256", per_layer_inputs);
  add_kernel(w, "gated_gelu/rows:4/width:256", dense_gate);
  add_kernel(w, "choose_experts/tokens:8/experts:16/chosen:4", choose);
  add_kernel(w, "combine_experts/tokens:4/chosen:2/width:256", combine);
  add_kernel(w, "altup_predict/tokens:4/streams:4/width:256", predict);
  add_kernel(w, "altup_correct/tokens:4/streams:4/width:256", correct);
  add_kernel(w, "add_to_side_streams/tokens:4/streams:4/width:256", side_streams);
  add_kernel(w, "mean_of_streams/tokens:4/streams:4/width:256", mean);
  add_simple(w);
  add_kernel(w, "select_rows/rows:2/width:256", select);
}

}  // namespace kvconform::bench
