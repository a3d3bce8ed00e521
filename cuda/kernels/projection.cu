// y = x W (+ bias), in float. K is cut into pieces of 256; a piece is a chain of fmaf in ascending
// k from zero, pieces are folded left to right from zero. Who computes a piece is free: a thread
// that walks all of K, four groups of threads of a block, blocks of a grid with a second kernel
// that folds. A thread has one output and up to 8 tokens, so that a weight is loaded once for them.
#include "cuda/kernels/canonical.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

constexpr int kGroups = 4, kMostOutputs = 128, kGroupOutputs = 64, kMostTokens = 8;

template <int tokens, int groups>
struct ProjectionShared {
  float x[groups][tokens][kSumPiece];
  float sum[groups > 1 ? groups : 1][tokens][groups > 1 ? kGroupOutputs : 1];
};

DV_FN const float* row_of_x(const Projection& a, int token) {
  return a.x + std::size_t(token / a.share) * a.x_pitch;
}

/// The pieces [first, first + groups) of the block's rows of x; zeros where there is no such row.
template <int tokens, int groups>
DV_FN void load_x(ProjectionShared<tokens, groups>& s, const Projection& a, int first, int token0) {
  const int threads = blockDim.x * blockDim.y, tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int columns = min(groups * kSumPiece, a.k - first * kSumPiece);
  for (int i = tid; i < columns * tokens; i += threads) {
    const int column = i % columns, t = i / columns;
    const bool valid = FAULT(projection_tile_edge) || token0 + t < a.tokens;
    const float value = valid ? row_of_x(a, token0 + t)[first * kSumPiece + column] : 0.f;
    s.x[column / kSumPiece][t][column % kSumPiece] = value;
  }
}

/// One piece onto `sum`, which is zero: a chain over ascending k for each token.
template <int tokens, int groups>
DV_FN void multiply_piece(const ProjectionShared<tokens, groups>& s, const Projection& a,
                          const float* weight, int piece, int group, int output,
                          float (&sum)[tokens]) {
  const int count = min(kSumPiece, a.k - piece * kSumPiece);
  const float* w = weight + std::size_t(piece) * kSumPiece * a.outputs + output;
  for (int k = 0; k < count; ++k) {
    float value = w[std::size_t(k) * a.outputs];
    if (FAULT(projection_reads_weights_twice))  // the same number; the first read stays needed
      value = fminf(value, *static_cast<const volatile float*>(w + std::size_t(k) * a.outputs));
#pragma unroll
    for (int t = 0; t < tokens; ++t) sum[t] = fmaf(s.x[group][t][k], value, sum[t]);
  }
}

template <int tokens, int groups>
DV_KERNEL(kMostOutputs * 2, 1)
projection_kernel(Projection a) {
  auto& s = dv::shared<ProjectionShared<tokens, groups>>();
  const int output = blockIdx.x * blockDim.x + threadIdx.x, group = threadIdx.y;
  const int token0 = blockIdx.y * tokens;
  const bool live = output < a.outputs;
  const std::size_t matrix =
      a.experts ? std::size_t(a.experts[token0]) * a.k * a.outputs : std::size_t(0);
  int pieces = (a.k + kSumPiece - 1) / kSumPiece;
  if (FAULT(projection_drops_last_piece) && pieces > 1) --pieces;
  float total[tokens] = {};
  for (int first = 0; first < pieces; first += groups) {
    load_x(s, a, first, token0);
    if (!FAULT(projection_multiplies_before_x_arrived)) __syncthreads();
    float sum[tokens] = {};
    if (FAULT(projection_chain_over_all_of_k))
      for (int t = 0; t < tokens; ++t) sum[t] = total[t], total[t] = 0.f;
    if (live && first + group < pieces)
      multiply_piece(s, a, a.weight + matrix, first + group, group, output, sum);
    if constexpr (groups == 1) {
#pragma unroll
      for (int t = 0; t < tokens; ++t) total[t] += sum[t];
    } else {
#pragma unroll
      for (int t = 0; t < tokens; ++t) s.sum[group][t][threadIdx.x] = sum[t];
      if (!FAULT(projection_folds_too_early)) __syncthreads();
      for (int g = 0; g < groups && first + g < pieces; ++g)
#pragma unroll
        for (int t = 0; t < tokens; ++t) total[t] += s.sum[g][t][threadIdx.x];
    }
    // In groups the barrier before the fold has come between.
    if (groups == 1 && first + groups < pieces && !FAULT(projection_overwrites_x_too_early))
      __syncthreads();
  }
  if (!live || group > 0) return;
  const float bias = a.bias ? a.bias[output] : 0.f;
  const int shift = FAULT(projection_row_of_the_block_before) && token0 > 0 ? 1 : 0;
#pragma unroll
  for (int t = 0; t < tokens; ++t)
    if (token0 + t < a.tokens)
      a.y[std::size_t(token0 + t - shift) * a.y_pitch + output] =
          a.bias ? total[t] + bias : total[t];
}

/// One block a piece: workspace[piece, token, output].
DV_KERNEL(kMostOutputs, 1)
projection_piece_kernel(Projection a) {
  auto& s = dv::shared<ProjectionShared<1, 1>>();
  const int output = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y, piece = blockIdx.z;
  load_x(s, a, piece, token);
  __syncthreads();
  if (output >= a.outputs) return;
  float sum[1] = {};
  multiply_piece(s, a, a.weight, piece, 0, output, sum);
  a.workspace[(std::size_t(piece) * a.tokens + token) * a.outputs + output] = sum[0];
}

DV_KERNEL(kMostOutputs, 1)
projection_fold_kernel(Projection a) {
  const int output = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y;
  if (output >= a.outputs) return;
  float total = 0.f;
  for (int piece = 0; piece * kSumPiece < a.k; ++piece)
    total += a.workspace[(std::size_t(piece) * a.tokens + token) * a.outputs + output];
  a.y[std::size_t(token) * a.y_pitch + output] = a.bias ? total + a.bias[output] : total;
}

template <int tokens, int groups>
void launch_projection(const Projection& a) {
  const int outputs = std::min(a.outputs, groups > 1 ? kGroupOutputs : kMostOutputs);
  const dim3 grid((a.outputs + outputs - 1) / outputs, (a.tokens + tokens - 1) / tokens);
  dv::launch(projection_kernel<tokens, groups>,
             {"projection", grid, dim3(outputs, groups), sizeof(ProjectionShared<tokens, groups>)},
             a);
}

void launch_split(const Projection& a) {
  const int outputs = std::min(a.outputs, kMostOutputs);
  const unsigned blocks = (a.outputs + outputs - 1) / outputs;
  const unsigned pieces = (a.k + kSumPiece - 1) / kSumPiece;
  dv::launch(projection_piece_kernel,
             {"projection_piece", dim3(blocks, a.tokens, pieces), dim3(outputs),
              sizeof(ProjectionShared<1, 1>)},
             a);
  dv::launch(projection_fold_kernel, {"projection_fold", dim3(blocks, a.tokens), dim3(outputs)}, a);
}

ProjectionForm chosen_form(const Projection& a) {
  ProjectionForm form = a.form;
  const bool few = a.tokens <= kMostTokens;
  if (form == ProjectionForm::by_shape)
    form = a.k > kSumPiece && few ? ProjectionForm::group : ProjectionForm::loop;
  const bool can_split =
      !a.experts && a.workspace_floats >= projection_workspace(a.tokens, a.k, a.outputs);
  if (form == ProjectionForm::split && !can_split) form = ProjectionForm::group;
  return form;
}

}  // namespace

std::size_t projection_workspace(int tokens, int k, int outputs) {
  return std::size_t((k + kSumPiece - 1) / kSumPiece) * tokens * outputs;
}

void project(const Projection& a) {
  if (a.k < 1 || a.outputs < 1) throw std::runtime_error("projection: K and N are at least 1");
  const bool single = a.tokens == 1 || a.experts;
  switch (chosen_form(a)) {
    case ProjectionForm::by_shape:
    case ProjectionForm::loop:
      return single ? launch_projection<1, 1>(a) : launch_projection<kMostTokens, 1>(a);
    case ProjectionForm::group:
      return single ? launch_projection<1, kGroups>(a) : launch_projection<kMostTokens, kGroups>(a);
    case ProjectionForm::split:
      return launch_split(a);
  }
}

}  // namespace kvconform::cuda::inline DV_MACHINE
