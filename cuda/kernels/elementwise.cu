// Small steps between the products: joins, factors, the soft cap, moving rows.
#include "cuda/kernels/elementwise.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

struct JoinHalves {
  const float *a, *b;
  float* y;
  float root;
  DV_FN void operator()(std::size_t i) const { y[i] = (a[i] + b[i]) / root; }
};

struct ScaleColumns {
  const float* x;
  int x_pitch;
  const float* factor;
  float* y;
  int width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t row = i / width, column = i % width;
    y[i] = x[row * x_pitch + column] * factor[column];
  }
};

struct ScaleAll {
  float* x;
  const float* factor;
  DV_FN void operator()(std::size_t i) const { x[i] *= factor[0]; }
};

struct SoftCap {
  float* z;
  float cap;
  DV_FN void operator()(std::size_t i) const { z[i] = dv::tanh_exact(z[i] / cap) * cap; }
};

struct SelectRows {
  const float* x;
  const int* rows;
  float* y;
  int width;
  DV_FN void operator()(std::size_t i) const {
    y[i] = x[std::size_t(rows[i / width]) * width + i % width];
  }
};

struct CopyRows {
  const float* x;
  int x_pitch;
  float* y;
  int y_pitch, width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t row = i / width, column = i % width;
    y[row * y_pitch + column] = x[row * x_pitch + column];
  }
};

}  // namespace

void join_halves(const float* a, const float* b, float* y, std::size_t count) {
  launch_elementwise("join_halves", count, JoinHalves{a, b, y, 1.41421356f});
}
void scale_columns(const float* x, int x_pitch, const float* factor, float* y, int rows,
                   int width) {
  launch_elementwise("scale_columns", std::size_t(rows) * width,
                     ScaleColumns{x, x_pitch, factor, y, width});
}
void scale_all(float* x, const float* factor, std::size_t count) {
  launch_elementwise("scale_all", count, ScaleAll{x, factor});
}
void soft_cap(float* z, float cap, std::size_t count) {
  launch_elementwise("soft_cap", count, SoftCap{z, cap});
}
void select_rows(const float* x, const int* rows, float* y, int count, int width) {
  launch_elementwise("select_rows", std::size_t(count) * width, SelectRows{x, rows, y, width});
}
void copy_rows(const float* x, int x_pitch, float* y, int y_pitch, int rows, int width) {
  launch_elementwise("copy_rows", std::size_t(rows) * width,
                     CopyRows{x, x_pitch, y, y_pitch, width});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
