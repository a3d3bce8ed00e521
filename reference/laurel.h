// LAuReL (Menghani et al. 2024), low-rank form, as Gemma 3n has it: v + rms(linear_right ·
// (linear_left · v)). The residual is v, the normed input, not the stream it was made from.
#pragma once

#include "reference/checkpoint.h"
#include "reference/norm.h"

namespace kvconform {

/// v [T, H] → [T, H].
template <class N>
Matrix<typename N::Scalar> laurel(const Matrix<typename N::Scalar>& v, const LayerWeights& weights,
                                  double eps, int threads) {
  const auto low_rank = linear<N>(v, weights.laurel_left, {}, threads);
  auto out = rms_norm<N>(linear<N>(low_rank, weights.laurel_right, {}, threads),
                         weights.post_laurel_norm, eps);
  add_in_place<N>(out, v);
  return out;
}

}  // namespace kvconform
