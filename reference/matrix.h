// Row-major matrix of activations: one row a token (or a token's stream, head, …).
#pragma once

#include <cstddef>
#include <vector>

namespace kvconform {

template <class S>
struct Matrix {
  int rows = 0, cols = 0;
  std::vector<S> values;

  Matrix() = default;
  Matrix(int r, int c) : rows(r), cols(c), values(std::size_t(r) * c) {}

  S* row(int r) { return values.data() + std::size_t(r) * cols; }
  const S* row(int r) const { return values.data() + std::size_t(r) * cols; }
  S& at(int r, int c) { return row(r)[c]; }
  S at(int r, int c) const { return row(r)[c]; }
};

/// a ← store(a + b), element by element: a residual addition.
template <class N>
void add_in_place(Matrix<typename N::Scalar>& a, const Matrix<typename N::Scalar>& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i)
    a.values[i] = N::store(a.values[i] + b.values[i]);
}

/// a ← store(a · factor)
template <class N>
void scale_in_place(Matrix<typename N::Scalar>& a, typename N::Scalar factor) {
  for (auto& value : a.values) value = N::store(value * factor);
}

}  // namespace kvconform
