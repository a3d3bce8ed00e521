// Queries, keys and values after their projection: a norm over each head, then the rotary embedding
// in its half-split form, (x_i, x_{i+D/2}) ← (x_i cos − x_{i+D/2} sin, x_{i+D/2} cos + x_i sin).
#include "cuda/kernels/canonical.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

template <Team team>
DV_KERNEL(kTeamWarps * 32, 1)
finish_heads_kernel(FinishHeads a) {
  const RowShare share = my_share<team>();  // a row is a head of a token
  const bool live = share.row < a.tokens * a.heads;
  const int row = live ? share.row : 0, half = a.head_dim / 2;
  const float* x = a.x + std::size_t(row) * a.head_dim;
  float* y = a.y + std::size_t(row) * a.head_dim;
  const float square =
      row_sum<team>(live ? a.head_dim : 0, [&](float sum, int i) { return fmaf(x[i], x[i], sum); });
  if (!live) return;
  const float scale = dv::rsqrt_exact(square / float(a.head_dim) + a.eps);
  const int token = row / a.heads;
  const int position = a.places[token].position;
  int entry = position - a.first_position;
  if (FAULT(rope_position_of_the_call)) entry = min(entry, token);
  const float* table = a.table ? a.table + std::size_t(entry) * a.head_dim : nullptr;
  for (int i = share.first; i < half; i += share.step) {
    const int left = FAULT(rope_interleaved_pairs) ? 2 * i : i;
    const int right = FAULT(rope_interleaved_pairs) ? 2 * i + 1 : i + half;
    float p = x[left] * scale, q = x[right] * scale;
    if (a.weight) {
      p *= a.weight[left];
      q *= a.weight[right];
    }
    const float cosine = table ? table[i] : 1.f, sine = table ? table[half + i] : 0.f;
    y[left] = table ? p * cosine - q * sine : p;
    y[right] = table ? q * cosine + p * sine : q;
  }
}

}  // namespace

void finish_heads(const FinishHeads& a) {
  if (a.head_dim % 2 != 0) throw std::runtime_error("finish_heads: the head dimension is even");
  launch_by_row("finish_heads", a.tokens * a.heads, a.head_dim,
                [&](auto team, const dv::Launch& shape) {
                  dv::launch(finish_heads_kernel<decltype(team)::team>, shape, a);
                });
}

}  // namespace kvconform::cuda::inline DV_MACHINE
