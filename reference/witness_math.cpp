// The witness's vocabulary: weights widened to double and the functions of model-spec.md, section
// 0. Everything here is elementwise, by rows, or a matrix product; nothing knows what a layer is.
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/witness_parts.h"

namespace kvconform::witness {

Matrix widen(const TensorView& tensor, std::int64_t first, std::int64_t rows) {
  const std::int64_t cols = tensor.cols();
  Matrix m(rows, cols);
  for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = element(tensor, first * cols + i);
  return m;
}

Matrix widen(const TensorView& tensor) {
  return widen(tensor, 0, tensor.rows());
}

Row widen_row(const TensorView& tensor) {
  Row row(tensor.count());
  for (std::int64_t i = 0; i < row.size(); ++i) row[i] = element(tensor, i);
  return row;
}

Matrix linear(const Matrix& x, const Matrix& weight) {
  return x * weight.transpose();
}

Matrix linear(const Matrix& x, const TensorView& weight) {
  return linear(x, widen(weight));
}

Matrix linear(const Matrix& x, const TensorView& weight, const TensorView& bias) {
  const Matrix y = linear(x, weight);
  return bias ? Matrix(y.rowwise() + widen_row(bias)) : y;
}

Column mean_square(const Matrix& x) {
  return x.array().square().rowwise().mean();
}

Matrix scale_rows(const Column& factors, const Matrix& x) {
  return factors.asDiagonal() * x;
}

Matrix rms(const Matrix& x, double eps) {
  return scale_rows((mean_square(x).array() + eps).sqrt().inverse(), x);
}

Matrix rms(const Matrix& x, const TensorView& weight, double eps) {
  return rms(x, eps) * widen_row(weight).asDiagonal();
}

Matrix gelu(const Matrix& x) {
  const auto a = x.array();
  const double c = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * a * (1.0 + (c * (a + 0.044715 * a.cube())).tanh());
}

Matrix softmax(const Matrix& scores) {
  // The row's maximum is finite: every query sees at least its own key, so no ∞ − ∞ here.
  const Matrix e = (scores.colwise() - scores.rowwise().maxCoeff()).array().exp();
  return scale_rows(e.rowwise().sum().cwiseInverse(), e);
}

double normal_quantile(double p) {
  // Upper tail Q(z) = erfc(z/√2)/2 with the smaller of the two tails: no digits are lost near 0
  // or 1.
  const double tail = std::min(p, 1.0 - p);
  double low = 0.0, high = 40.0;  // Q(40) underflows, Q falls from 1/2
  for (int step = 0; step < 100; ++step) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle / std::numbers::sqrt2) > tail ? low : high) = middle;
  }
  return p < 0.5 ? -low : low;
}

void record(Trace* trace, const std::string& name, const Matrix& rows) {
  if (!trace) return;
  trace->push_back({name, {rows.rows(), rows.cols()}, {rows.data(), rows.data() + rows.size()}});
}

void record(Trace* trace, const std::string& name, const std::vector<Matrix>& parts) {
  if (!trace) return;
  const auto rows = parts.front().rows(), width = parts.front().cols();
  TraceArray array{name, {rows, std::int64_t(parts.size()), width}, {}};
  for (std::int64_t t = 0; t < rows; ++t) {
    for (const Matrix& part : parts) {
      const double* row = part.data() + t * width;
      array.values.insert(array.values.end(), row, row + width);
    }
  }
  trace->push_back(std::move(array));
}

}  // namespace kvconform::witness
