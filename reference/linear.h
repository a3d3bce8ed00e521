// A linear layer: y[t, n] = Σ_k x[t, k] · w[n, k] (+ b[n]). Weights stay in the checkpoint's format
// and are widened a row at a time; rows of w may be spread over threads, a sum never is.
#pragma once

#include <array>
#include <thread>

#include "reference/matrix.h"
#include "reference/numerics.h"
#include "reference/summation.h"

namespace kvconform {

/// Row `index` of a matrix in scalars of N, widened into `buffer` unless it can be read where it
/// lies.
template <class N>
const typename N::Scalar* widened_row(const TensorView& tensor, std::int64_t index,
                                      std::vector<typename N::Scalar>& buffer) {
  const std::int64_t cols = tensor.cols();
  if constexpr (std::is_same_v<N, Float32>) {
    if (tensor.dtype == Dtype::f32)
      return reinterpret_cast<const float*>(tensor.data) + index * cols;
  }
  buffer.resize(cols);
  const std::int64_t begin = index * cols;
  switch (tensor.dtype) {
    case Dtype::f32: {
      const float* from = reinterpret_cast<const float*>(tensor.data) + begin;
      for (std::int64_t i = 0; i < cols; ++i) buffer[i] = N::weight(from[i]);
      break;
    }
    case Dtype::bf16: {
      const auto* from = reinterpret_cast<const std::uint16_t*>(tensor.data) + begin;
      for (std::int64_t i = 0; i < cols; ++i)
        buffer[i] = N::weight(std::bit_cast<float>(std::uint32_t(from[i]) << 16));
      break;
    }
    case Dtype::f16:
      for (std::int64_t i = 0; i < cols; ++i) buffer[i] = N::weight(element(tensor, begin + i));
  }
  return buffer.data();
}

/// A whole vector (norm weights, biases, scales) in scalars of N.
template <class N>
std::vector<typename N::Scalar> widened(const TensorView& vector) {
  std::vector<typename N::Scalar> values(vector.count());
  for (std::int64_t i = 0; i < vector.count(); ++i) values[i] = N::weight(element(vector, i));
  return values;
}

/// One slice of a tensor along its first axis, e.g. one expert of [X, 2·Im, H].
inline TensorView slice(const TensorView& tensor, std::int64_t index) {
  TensorView part = tensor;
  part.shape.erase(part.shape.begin());
  part.data += index * part.count() * byte_size(tensor.dtype);
  return part;
}

/// Outputs [begin, end) of a linear layer, for all tokens.
template <class N>
void linear_outputs(const Matrix<typename N::Scalar>& x, const TensorView& w, std::int64_t begin,
                    std::int64_t end, Matrix<typename N::Scalar>& y) {
  using S = typename N::Scalar;
  constexpr int kBlock = 4;  // tokens that share one pass over a row of weights
  std::vector<S> buffer;
  for (std::int64_t n = begin; n < end; ++n) {
    const S* weights = widened_row<N>(w, n, buffer);
    int t = 0;
    for (; t + kBlock <= x.rows; t += kBlock) {
      const S* inputs[kBlock] = {x.row(t), x.row(t + 1), x.row(t + 2), x.row(t + 3)};
      S results[kBlock];
      dots<kBlock>(weights, inputs, x.cols, results);
      for (int b = 0; b < kBlock; ++b) y.at(t + b, n) = N::store(results[b]);
    }
    for (; t < x.rows; ++t) y.at(t, n) = N::store(dot(weights, x.row(t), x.cols));
  }
}

/// x [T, in], w [out, in], bias [out] or absent → [T, out].
template <class N>
Matrix<typename N::Scalar> linear(const Matrix<typename N::Scalar>& x, const TensorView& w,
                                  const TensorView& bias = {}, int threads = 1) {
  const std::int64_t outputs = w.rows();
  Matrix<typename N::Scalar> y(x.rows, static_cast<int>(outputs));
  constexpr double kWorthAThread = 1e6;  // multiplications; starting a thread costs about 20 µs
  if (threads > 1 && double(outputs) * x.cols * x.rows > kWorthAThread) {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&, i] {
        linear_outputs<N>(x, w, outputs * i / threads, outputs * (i + 1) / threads, y);
      });
  } else {
    linear_outputs<N>(x, w, 0, outputs, y);
  }
  if (bias) {
    const auto b = widened<N>(bias);
    for (int t = 0; t < y.rows; ++t)
      for (int n = 0; n < y.cols; ++n) y.at(t, n) = N::store(y.at(t, n) + b[n]);
  }
  return y;
}

}  // namespace kvconform
