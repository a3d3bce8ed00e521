// RMSNorm of rows, and its relative that scales a row to the magnitude of another. The sums are
// those of canonical.h; a team is a thread, a warp or a block, by the width of the row.
#include "cuda/kernels/canonical.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

template <Team team>
DV_KERNEL(kTeamWarps * 32, 1)
rms_norm_kernel(RmsNorm a) {
  const RowShare share = my_share<team>();
  const bool live = share.row < a.rows;  // no early return: teams have barriers
  const float* x = a.x + std::size_t(live ? share.row : 0) * a.x_pitch;
  const float square = row_sum<team>(live ? a.width : 0, [&](float sum, int i) {
    const float v = x[i] * a.before;
    return fmaf(v, v, sum);
  });
  const float scale = dv::rsqrt_exact(square / float(a.width) + a.eps);
  if (!live) return;
  float* y = a.y + std::size_t(share.row) * a.y_pitch;
  const float* residual =
      a.residual ? a.residual + std::size_t(share.row) * a.residual_pitch : nullptr;
  for (int i = share.first; i < a.width; i += share.step) {
    float v = x[i] * a.before * scale;
    if (a.weight) v *= a.weight[i];
    v *= a.after;
    y[i] = residual ? residual[i] + v : v;
  }
}

struct MatchMagnitude {
  float* y;
  const float* target;
  int y_pitch, target_pitch, rows, width;
};

template <Team team>
DV_KERNEL(kTeamWarps * 32, 1)
match_magnitude_kernel(MatchMagnitude a) {
  const RowShare share = my_share<team>();
  const bool live = share.row < a.rows;
  float* y = a.y + std::size_t(live ? share.row : 0) * a.y_pitch;
  const float* target = a.target + std::size_t(live ? share.row : 0) * a.target_pitch;
  const int width = live ? a.width : 0;
  const float wanted =
      row_sum<team>(width, [&](float sum, int i) { return fmaf(target[i], target[i], sum); });
  const float has = row_sum<team>(width, [&](float sum, int i) { return fmaf(y[i], y[i], sum); });
  if (!live) return;
  const float factor = sqrtf(wanted / float(a.width));
  // The bound keeps a zero row (a fresh model's pad token) from becoming 0/0.
  const float bound = FAULT(magnitude_without_bound) ? 0.f : 1e-5f;
  const float divisor = sqrtf(fmaxf(has / float(a.width), bound));
  for (int i = share.first; i < a.width; i += share.step) y[i] = y[i] * factor / divisor;
}

}  // namespace

void rms_norm(const RmsNorm& a) {
  launch_by_row("rms_norm", a.rows, a.width, [&](auto team, const dv::Launch& shape) {
    dv::launch(rms_norm_kernel<decltype(team)::team>, shape, a);
  });
}

void match_magnitude(float* y, int y_pitch, const float* target, int target_pitch, int rows,
                     int width) {
  const MatchMagnitude a{y, target, y_pitch, target_pitch, rows, width};
  launch_by_row("match_magnitude", rows, width, [&](auto team, const dv::Launch& shape) {
    dv::launch(match_magnitude_kernel<decltype(team)::team>, shape, a);
  });
}

}  // namespace kvconform::cuda::inline DV_MACHINE
