// Kernels that sum over a row: norms, heads, sparse gates, argmax. A row is a thread's, a warp's or
// a block's by its width; each is counted.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "bench/cuda_kernel.h"
#include "bench/cuda_workloads.h"
#include "cuda/kernels/kernels.h"

namespace kvconform::bench {
namespace {

using Array = KernelSetUp::Array;
using Expected = KernelSetUp::Expected;

constexpr double kFloat = sizeof(float);

double mean_square_of(const Array& x, std::size_t row, int width) {
  double sum = 0;
  for (int i = 0; i < width; ++i) sum += x[row * width + i] * x[row * width + i];
  return sum / width;
}

/// A scale that comes from a row's sum is off by γ of its terms, and a few roundings more.
double budget_of_scaled(double value, int width) {
  return (width + 10) * kRounding * std::fabs(value);
}

void norm(KernelSetUp& set, int rows, int width) {
  const std::size_t count = std::size_t(rows) * width;
  const Array x = set.numbers("x", count), w = set.numbers("norm weights", width);
  const Array y = set.output("y", count);
  set.launch = [=] {
    cuda::rms_norm({x.device, w.device, y.device, rows, width, width, width, 1e-6f});
  };
  set.result = y;
  set.expected = [=](std::size_t i) {
    const double value =
        x[i] / std::sqrt(mean_square_of(x, i / width, width) + 1e-6) * w[i % width];
    return Expected{value, budget_of_scaled(value, width)};
  };
  set.bytes_needed = kFloat * (2.0 * double(count) + width);
}

void magnitude(KernelSetUp& set, int rows, int width) {
  const std::size_t count = std::size_t(rows) * width;
  const Array y = set.numbers("y", count), target = set.numbers("target", count);
  set.launch = [=] { cuda::match_magnitude(y.device, width, target.device, width, rows, width); };
  set.result = y;
  set.expected = [=](std::size_t i) {
    const double wanted = std::sqrt(mean_square_of(target, i / width, width));
    const double has = std::sqrt(mean_square_of(y, i / width, width));
    return Expected{y[i] * wanted / has, budget_of_scaled(y[i] * wanted / has, 2 * width)};
  };
  set.bytes_needed = kFloat * 3.0 * double(count);
}

void heads(KernelSetUp& set, int tokens, int count, int dim) {
  const std::size_t numbers = std::size_t(tokens) * count * dim;
  const int half = dim / 2;
  const Array x = set.numbers("x", numbers), w = set.numbers("norm weights", dim);
  const Array table = set.numbers("cosines and sines", std::size_t(tokens) * dim);
  const Array y = set.output("y", numbers);
  std::vector<cuda::TokenPlace> where;
  for (int t = 0; t < tokens; ++t) where.push_back({0, t, tokens - 1});
  const cuda::TokenPlace* places = set.integers("places", where);
  set.launch = [=] {
    cuda::finish_heads(
        {x.device, w.device, y.device, table.device, places, tokens, count, dim, 1e-6f});
  };
  set.result = y;
  set.expected = [=](std::size_t i) {
    const std::size_t row = i / dim, token = row / count;
    const int d = int(i % dim), pair = d % half;
    const double scale = 1 / std::sqrt(mean_square_of(x, row, dim) + 1e-6);
    const double p = x[row * dim + pair] * scale * w[pair];
    const double q = x[row * dim + pair + half] * scale * w[pair + half];
    const double cosine = table[token * dim + pair], sine = table[token * dim + half + pair];
    const double value = d < half ? p * cosine - q * sine : q * cosine + p * sine;
    return Expected{value, budget_of_scaled(std::fabs(p) + std::fabs(q), dim)};
  };
  set.bytes_needed = kFloat * (2.0 * double(numbers) + dim + double(tokens) * dim) +
                     double(tokens) * sizeof(cuda::TokenPlace);
}

void sparse_gate(KernelSetUp& set, int rows, int width) {
  const std::size_t count = std::size_t(rows) * width;
  const Array gate = set.numbers("gate", count), up = set.numbers("up", count);
  const Array out = set.output("out", count);
  constexpr float quantile = 0.5f;
  set.launch = [=] {
    cuda::gated_gelu(
        {gate.device, up.device, out.device, rows, width, width, width, true, quantile});
  };
  set.result = out;
  set.expected = [=](std::size_t i) {
    const std::size_t row = i / width;
    double mean = 0, squares = 0;
    for (int j = 0; j < width; ++j) mean += gate[row * width + j] / width;
    for (int j = 0; j < width; ++j) squares += std::pow(gate[row * width + j] - mean, 2);
    const double kept = std::max(0.0, gate[i] - mean - std::sqrt(squares / width) * quantile);
    const double inner = std::sqrt(2 / M_PI) * (kept + 0.044715 * kept * kept * kept);
    // The cutoff is off by γ of the row; gelu has a slope of at most 1.13.
    return Expected{0.5 * kept * (1 + std::tanh(inner)) * up[i], 2 * (width + 10) * kRounding};
  };
  set.bytes_needed = kFloat * 3.0 * double(count);
}

void greedy(KernelSetUp& set, int rows, int width) {
  const Array x = set.numbers("logits", std::size_t(rows) * width);
  const Array index = set.output("indices", rows);
  set.launch = [=] { cuda::argmax(x.device, reinterpret_cast<int*>(index.device), rows, width); };
  set.result = index;
  set.expected = [=](std::size_t i) {
    const auto begin = x.host->begin() + i * width;
    const auto best = int(std::max_element(begin, begin + width) - begin);
    return Expected{double(std::bit_cast<float>(best)), 0};  // the integer's bits
  };
  set.bytes_needed = kFloat * rows * (width + 1.0);
}

}  // namespace

void add_cuda_row_kernels(Workloads& workloads) {
  for (int width : {48, 512, 2048})
    add_kernel(workloads, fmt::format("rms_norm/rows:4/width:{}", width),
               [=](KernelSetUp& set) { norm(set, 4, width); });
  add_kernel(workloads, "match_magnitude/rows:4/width:512",
             [](KernelSetUp& set) { magnitude(set, 4, 512); });
  add_kernel(workloads, "finish_heads/tokens:4/heads:4/dim:64",
             [](KernelSetUp& set) { heads(set, 4, 4, 64); });
  add_kernel(workloads, "sparse_gelu/rows:4/width:512",
             [](KernelSetUp& set) { sparse_gate(set, 4, 512); });
  add_kernel(workloads, "argmax/rows:2/width:1024", [](KernelSetUp& set) { greedy(set, 2, 1024); });
}

}  // namespace kvconform::bench
