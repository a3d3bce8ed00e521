// Products, attention and the cache: the kernels that move most of the bytes.
#include <fmt/format.h>

#include <cmath>

#include "bench/cuda_kernel.h"
#include "bench/cuda_workloads.h"
#include "cuda/kernels/kernels.h"

namespace kvconform::bench {
namespace {

using cuda::AttentionForm;
using cuda::ProjectionForm;
using cuda::TokenPlace;
using Array = KernelSetUp::Array;

constexpr double kFloat = sizeof(float);

KernelSetUp::Expected dot(const Array& x, std::size_t row, const Array& w, std::size_t column,
                          int k, int outputs) {
  double sum = 0, magnitude = 0;
  for (int i = 0; i < k; ++i) {
    const double term = x[row * k + i] * w[std::size_t(i) * outputs + column];
    sum += term;
    magnitude += std::fabs(term);
  }
  return {sum, budget_of_sum(k, magnitude)};
}

void projection(KernelSetUp& set, ProjectionForm form, int tokens, int k, int outputs) {
  const Array x = set.numbers("x", std::size_t(tokens) * k);
  const Array w = set.numbers("weights", std::size_t(k) * outputs);
  const Array y = set.output("y", std::size_t(tokens) * outputs);
  const std::size_t room = cuda::projection_workspace(tokens, k, outputs);
  const Array work = set.output("workspace", room);
  set.launch = [=] {
    cuda::Projection p{x.device, w.device, nullptr, y.device, tokens, k, outputs, k, outputs};
    p.form = form;
    p.workspace = work.device;
    p.workspace_floats = room;
    cuda::project(p);
  };
  set.result = y;
  set.expected = [=](std::size_t i) { return dot(x, i / outputs, w, i % outputs, k, outputs); };
  set.bytes_needed = kFloat * (double(k) * outputs + double(tokens) * (k + outputs));
  set.multiply_adds = double(tokens) * k * outputs;
}

void experts(KernelSetUp& set, int tokens, int chosen, int k, int outputs) {
  constexpr int all = 4;
  const Array x = set.numbers("x", std::size_t(tokens) * k);
  const Array w = set.numbers("weights", std::size_t(all) * k * outputs);
  const Array y = set.output("y", std::size_t(tokens) * chosen * outputs);
  std::vector<int> which;
  for (int i = 0; i < tokens * chosen; ++i) which.push_back((i * 3 + i / chosen) % all);
  const int* ids = set.integers("chosen experts", which);
  set.launch = [=] {
    cuda::Projection p{x.device, w.device, nullptr, y.device, tokens * chosen,
                       k,        outputs,  k,       outputs};
    p.experts = ids;
    p.share = chosen;
    cuda::project(p);
  };
  set.result = y;
  set.expected = [=](std::size_t i) {
    const std::size_t row = i / outputs, matrix = std::size_t(which[row]) * k;
    double sum = 0, magnitude = 0;
    for (int j = 0; j < k; ++j) {
      const double term = x[row / chosen * k + j] * w[(matrix + j) * outputs + i % outputs];
      sum += term;
      magnitude += std::fabs(term);
    }
    return KernelSetUp::Expected{sum, budget_of_sum(k, magnitude)};
  };
  std::vector<int> distinct = which;
  std::sort(distinct.begin(), distinct.end());
  const auto matrices = std::unique(distinct.begin(), distinct.end()) - distinct.begin();
  set.bytes_needed = kFloat * (double(matrices) * k * outputs + double(tokens) * k +
                               double(tokens) * chosen * (outputs + 1));
  set.multiply_adds = double(tokens) * chosen * k * outputs;
}

struct AttentionShape {
  int context, query_heads, key_heads, dim, window;  ///< window 0: everything
};

/// One token of a row behind `context` others.
void attention(KernelSetUp& set, AttentionForm form, const AttentionShape& s) {
  const int keys = s.context + 1;
  const Array q = set.numbers("query", std::size_t(s.query_heads) * s.dim);
  const Array k = set.numbers("keys", std::size_t(s.key_heads) * keys * s.dim);
  const Array v = set.numbers("values", std::size_t(s.key_heads) * keys * s.dim);
  const Array out = set.output("out", std::size_t(s.query_heads) * s.dim);
  const int pieces = (keys + cuda::kKeyPiece - 1) / cuda::kKeyPiece;
  const std::size_t room = cuda::attention_workspace(1, s.query_heads, s.dim, pieces);
  const Array work = set.output("workspace", room);
  const TokenPlace* places =
      set.integers<TokenPlace>("places", {TokenPlace{0, s.context, s.context}});
  const int behind = s.window == 0 ? cuda::kEverything : s.window - 1;
  const int first = std::max(0, s.context - behind), seen = s.context - first + 1;
  set.launch = [=] {
    cuda::Attention a{q.device,    cuda::CacheView(cuda::OwnerCache{k.device, v.device, keys}),
                      places,      out.device,
                      1,           s.query_heads,
                      s.key_heads, s.dim,
                      behind,      0,
                      pieces};
    a.form = form;
    a.workspace = work.device;
    a.workspace_floats = room;
    cuda::attend(a);
  };
  set.result = out;
  set.expected = [=](std::size_t i) {
    const std::size_t head = i / s.dim, d = i % s.dim;
    const std::size_t key_head = head / (s.query_heads / s.key_heads);
    double sum = 0, weighted = 0;
    for (int j = first; j < keys; ++j) {
      double score = 0;
      for (int c = 0; c < s.dim; ++c)
        score += q[head * s.dim + c] * k[(key_head * keys + j) * s.dim + c];
      sum += std::exp(score);
      weighted += std::exp(score) * v[(key_head * keys + j) * s.dim + d];
    }
    // Scores are off by γ_D of at most D, weights by as much twice, the sums by γ of the keys.
    return KernelSetUp::Expected{weighted / sum, (2.0 * s.dim * s.dim + 2 * keys + 16) * kRounding};
  };
  set.bytes_needed = kFloat * (2.0 * s.key_heads * seen * s.dim + 2.0 * s.query_heads * s.dim) +
                     sizeof(TokenPlace);
  set.multiply_adds = 2.0 * s.query_heads * seen * s.dim;
}

void append(KernelSetUp& set, int tokens, int heads, int dim) {
  const std::size_t count = std::size_t(tokens) * heads * dim;
  const Array k = set.numbers("new keys", count), v = set.numbers("new values", count);
  const Array keys = set.output("keys", count), values = set.output("values", count);
  std::vector<TokenPlace> where;
  for (int t = 0; t < tokens; ++t) where.push_back({0, tokens + t, 2 * tokens - 1});
  const TokenPlace* places = set.integers("places", where);
  set.launch = [=] {
    cuda::append_to_cache(k.device, v.device, {keys.device, values.device, tokens}, places, tokens,
                          heads, dim);
  };
  set.result = keys;
  set.expected = [=](std::size_t i) {  // [nK, slots, D] from [T, nK, D]
    const std::size_t h = i / dim / tokens, slot = i / dim % tokens;
    return KernelSetUp::Expected{k[(slot * heads + h) * dim + i % dim], 0};
  };
  set.bytes_needed = 4 * kFloat * double(count) + double(tokens) * sizeof(TokenPlace);
}

const char* name_of(ProjectionForm form) {
  return form == ProjectionForm::loop ? "loop" : form == ProjectionForm::group ? "group" : "split";
}

}  // namespace

void add_cuda_kernels(Workloads& workloads) {
  for (auto form : {ProjectionForm::loop, ProjectionForm::group, ProjectionForm::split})
    for (int tokens : {1, 8}) {
      const std::string name =
          fmt::format("projection/{}/tokens:{}/k:768/outputs:64", name_of(form), tokens);
      add_kernel(workloads, name,
                 [=](KernelSetUp& set) { projection(set, form, tokens, 768, 64); });
    }
  add_kernel(workloads, "projection/experts/tokens:2/chosen:2/k:64/outputs:64",
             [](KernelSetUp& set) { experts(set, 2, 2, 64, 64); });
  for (auto form : {AttentionForm::loop, AttentionForm::split}) {
    const char* name = form == AttentionForm::loop ? "loop" : "split";
    add_kernel(workloads, fmt::format("attention/{}/context:255/heads:4/key_heads:1/dim:32", name),
               [=](KernelSetUp& set) {
                 attention(set, form, {255, 4, 1, 32, 0});
               });
  }
  add_kernel(workloads, "attention/window/context:255/heads:4/key_heads:2/dim:32/window:64",
             [](KernelSetUp& set) {
               attention(set, AttentionForm::loop, {255, 4, 2, 32, 64});
             });
  add_kernel(workloads, "append_to_cache/tokens:8/key_heads:2/dim:32",
             [](KernelSetUp& set) { append(set, 8, 2, 32); });
}

}  // namespace kvconform::bench
