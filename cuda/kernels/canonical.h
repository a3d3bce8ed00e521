// The definitions that make results independent of launch shapes: how a long sum is cut and folded,
// and how two pieces of an attention row are merged. Change one and every bit changes.
//
// A row's sum: pieces of 256, folded left to right from 0. In a piece lane l of 32 has the terms 8l
// to 8l + 7 and adds them in ascending order; the lanes are folded as a butterfly. Three teams
// compute it: a thread alone (short rows), a warp, a block of warps that share the pieces.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cuda/device/device.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/planted_faults.h"

namespace kvconform::cuda::inline DV_MACHINE {

// ---- sums over rows ----

enum class Team { thread, warp, block };

inline constexpr int kShortRow = 64;   ///< longest row of a thread alone
inline constexpr int kWarpRow = 1024;  ///< longest row of one warp
inline constexpr int kTeamWarps = 8;
inline constexpr int kMostPieces = 128;

struct PieceSums {
  float piece[kMostPieces];
};

/// Which row a thread works on, and which of its elements: first, first + step, …
struct RowShare {
  int row, first, step;
};
template <Team team>
DV_FN RowShare my_share() {
  if (team == Team::thread) return {int(blockIdx.x * blockDim.x + threadIdx.x), 0, 1};
  if (team == Team::warp)
    return {int(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32), int(threadIdx.x & 31), 32};
  return {int(blockIdx.x), int(threadIdx.x), int(blockDim.x)};
}

/// The 8 terms of one lane of the piece that begins at `piece`.
template <class Add>
DV_FN float lane_sum(int piece, int lane, int n, Add add) {
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int i = piece + lane * 8 + j;
    if (i < n) sum = add(sum, i);
  }
  return sum;
}

template <class Add>
DV_FN float short_row_sum(int n, Add add) {
  float lane[8];
#pragma unroll
  for (int l = 0; l < 8; ++l) lane[l] = lane_sum(0, l, n, add);
#pragma unroll
  for (int o = 4; o; o >>= 1)  // what the butterfly does where the other lanes hold zero
#pragma unroll
    for (int l = 0; l < o; ++l) lane[l] += lane[l + o];
  return 0.f + lane[0];
}

template <class Add>
DV_FN float warp_row_sum(int n, Add add) {
  const int lane = threadIdx.x & 31;
  float total = 0.f;
  for (int piece = 0; piece < n; piece += kSumPiece)
    total += dv::warp_sum(lane_sum(piece, lane, n, add));
  __syncwarp();  // the row may be overwritten now
  return total;
}

template <class Add>
DV_FN float block_row_sum(PieceSums& s, int n, Add add) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int p = warp; p * kSumPiece < n; p += warps) {
    const float sum = dv::warp_sum(lane_sum(p * kSumPiece, lane, n, add));
    if (lane == 0) s.piece[p] = sum;
  }
  if (!FAULT(norm_reads_pieces_too_early) &&
      !(FAULT(norm_half_the_block_skips_a_barrier) && warp >= warps / 2))
    __syncthreads();
  float total = 0.f;
  for (int p = 0; p * kSumPiece < n; ++p) total += s.piece[p];
  __syncthreads();  // before the next sum's pieces
  return total;
}

/// Σ over a row of n terms, for every thread of the team; `add(sum, i)` adds term i. A thread
/// without a row passes n = 0.
template <Team team, class Add>
DV_FN float row_sum(int n, Add add) {
  if constexpr (team == Team::thread)
    return short_row_sum(n, add);
  else if constexpr (team == Team::warp)
    return warp_row_sum(n, add);
  else
    return block_row_sum(dv::shared<PieceSums>(), n, add);
}

/// How a kernel over rows is launched: calls `launch(team, blocks, threads, shared bytes)` with the
/// team as a compile-time constant.
template <Team t>
struct TeamOf {
  static constexpr Team team = t;
};
template <class LaunchIt>
void launch_by_row(const char* name, int rows, int width, LaunchIt launch) {
  if (width > kMostPieces * kSumPiece)
    throw std::runtime_error(std::string(name) + ": a row has at most " +
                             std::to_string(kMostPieces * kSumPiece) + " elements, not " +
                             std::to_string(width));
  if (width <= kShortRow) {
    const int threads = std::min(rows, 32);
    launch(TeamOf<Team::thread>(), dv::Launch{name, dim3((rows + threads - 1) / threads), threads});
  } else if (width <= kWarpRow) {
    const int warps = std::min(rows, 4);
    launch(TeamOf<Team::warp>(), dv::Launch{name, dim3((rows + warps - 1) / warps), warps * 32});
  } else {
    launch(TeamOf<Team::block>(), dv::Launch{name, dim3(rows), kTeamWarps * 32, sizeof(PieceSums)});
  }
}

// ---- merging pieces of attention ----

/// Softmax state of one query row over the pieces seen so far.
struct RowState {
  float maximum, sum;
};
DV_FN RowState nothing_seen() {
  return {-INFINITY, 0.f};
}

struct MergeScale {
  float before, piece;
};
/// The only way two pieces are ever joined; pieces come in ascending order, and each has at least
/// one visible key (else this would subtract infinities).
DV_FN MergeScale merge_piece(RowState& state, float piece_maximum, float piece_sum) {
  const float maximum = fmaxf(state.maximum, piece_maximum);
  const MergeScale scale{dv::exp_exact(state.maximum - maximum),
                         dv::exp_exact(piece_maximum - maximum)};
  state = {maximum, fmaf(piece_sum, scale.piece, state.sum * scale.before)};
  return scale;
}
DV_FN float merge_value(float before, float piece, MergeScale scale) {
  return fmaf(piece, scale.piece, before * scale.before);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
