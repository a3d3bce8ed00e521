// gelu(gate) ⊙ up, and its form with activation sparsity: gate' = max(0, gate − μ − σ·Φ⁻¹(s)), μ
// and σ the mean and the biased deviation of the row. The survivors keep the shifted value; up is
// not masked.
#include "cuda/kernels/elementwise.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

struct DenseGate {
  GatedGelu a;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t row = i / a.width, column = i % a.width;
    const bool mixed_up = FAULT(gate_takes_the_next_rows_up) && int(row) + 1 < a.rows;
    a.out[i] = dv::gelu_exact(a.gate[row * a.gate_pitch + column]) *
               a.up[(row + mixed_up) * a.up_pitch + column];
  }
};

template <Team team>
DV_KERNEL(kTeamWarps * 32, 1)
sparse_gate_kernel(GatedGelu a) {
  const RowShare share = my_share<team>();
  const bool live = share.row < a.rows;
  const std::size_t row = live ? share.row : 0;
  const float* gate = a.gate + row * a.gate_pitch;
  const int width = live ? a.width : 0;
  const float mean =
      row_sum<team>(width, [&](float sum, int i) { return sum + gate[i]; }) / float(a.width);
  const float squares = row_sum<team>(width, [&](float sum, int i) {
    const float d = gate[i] - mean;
    return fmaf(d, d, sum);
  });
  if (!live) return;
  const int degrees = FAULT(sparsity_sample_deviation) ? a.width - 1 : a.width;
  const float cutoff = mean + sqrtf(squares / float(degrees)) * a.quantile;
  for (int i = share.first; i < a.width; i += share.step) {
    const float kept = fmaxf(gate[i] - cutoff, 0.f);
    a.out[row * a.width + i] = dv::gelu_exact(kept) * a.up[row * a.up_pitch + i];
  }
}

}  // namespace

void gated_gelu(const GatedGelu& a) {
  if (!a.sparse)
    return launch_elementwise("gated_gelu", std::size_t(a.rows) * a.width, DenseGate{a});
  launch_by_row("sparse_gelu", a.rows, a.width, [&](auto team, const dv::Launch& shape) {
    dv::launch(sparse_gate_kernel<decltype(team)::team>, shape, a);
  });
}

}  // namespace kvconform::cuda::inline DV_MACHINE
