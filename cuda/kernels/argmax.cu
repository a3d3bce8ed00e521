// The greedy token: a block a row, each thread the best of its share, then the best of the threads.
#include "cuda/kernels/canonical.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

constexpr int kThreads = 128;

struct Best {
  float value[kThreads];
  int index[kThreads];
};

DV_KERNEL(kThreads, 1)
argmax_kernel(const float* x, int* index, int width) {
  auto& s = dv::shared<Best>();
  const float* row = x + std::size_t(blockIdx.x) * width;
  int best = -1;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    if (best < 0 || row[i] > row[best]) best = i;
  s.index[threadIdx.x] = best;
  s.value[threadIdx.x] = best < 0 ? -INFINITY : row[best];
  __syncthreads();
  if (threadIdx.x != 0) return;
  int winner = 0;  // a thread's index is below every larger one of its value: ties by index
  for (int t = 1; t < int(blockDim.x); ++t)
    if (s.index[t] >= 0 && (s.value[t] > s.value[winner] ||
                            (s.value[t] == s.value[winner] && s.index[t] < s.index[winner])))
      winner = t;
  index[blockIdx.x] = s.index[winner];
}

}  // namespace

void argmax(const float* x, int* index, int rows, int width) {
  const int threads = std::min(kThreads, (width + 15) / 16);
  dv::launch(argmax_kernel, {"argmax", dim3(rows), dim3(threads), sizeof(Best)}, x, index, width);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
