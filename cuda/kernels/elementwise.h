// Launching what each element is computed from on its own: an operator is a struct whose operator()
// computes element i. Threads walk the elements with a stride; small calls take few threads.
#pragma once

#include "cuda/kernels/canonical.h"

namespace kvconform::cuda::inline DV_MACHINE {

template <class Op>
DV_KERNEL(128, 1)
elementwise_kernel(Op op, std::size_t count) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    op(i);
}

template <class Op>
void launch_elementwise(const char* name, std::size_t count, const Op& op) {
  if (count == 0) return;
  constexpr std::size_t a_thread = 16, a_block = 128 * a_thread, most_blocks = 2048;
  const auto threads = unsigned(std::min<std::size_t>(128, (count + a_thread - 1) / a_thread));
  const auto blocks = unsigned(std::min(most_blocks, (count + a_block - 1) / a_block));
  dv::launch(elementwise_kernel<Op>, {name, dim3(blocks), dim3(threads)}, op, count);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
