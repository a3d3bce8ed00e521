// Rows of the embedding table, scaled; and the per-layer inputs joined with theirs.
#include "cuda/kernels/elementwise.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

struct Embed {
  const float* table;
  const int* ids;
  float factor;
  float* y;
  int width;
  DV_FN void operator()(std::size_t i) const {
    y[i] = table[std::size_t(ids[i / width]) * width + i % width] * factor;
  }
};

struct JoinPerLayerInputs {
  const float *q, *table;
  const int* ids;
  float factor, half_root;
  float* p;
  int width;
  DV_FN void operator()(std::size_t i) const {
    const float u = table[std::size_t(ids[i / width]) * width + i % width] * factor;
    p[i] = (q[i] + u) * half_root;
  }
};

}  // namespace

void embed(const float* table, const int* ids, float factor, float* y, int tokens, int width) {
  launch_elementwise("embed", std::size_t(tokens) * width, Embed{table, ids, factor, y, width});
}

void join_per_layer_inputs(const float* q, const float* table, const int* ids, float factor,
                           float* p, int tokens, int width) {
  launch_elementwise("join_per_layer_inputs", std::size_t(tokens) * width,
                     JoinPerLayerInputs{q, table, ids, factor, 0.707106781f, p, width});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
