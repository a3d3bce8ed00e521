// The teams that sum a row agree bit for bit; elementary functions are within their ulps and exact
// where kernels rely on it. On both machines.
#include <cmath>

#include "cuda/kernels/canonical.h"
#include "cuda/test_arrays.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

template <Team team>
DV_KERNEL(256, 1)
sum_kernel(const float* x, float* y, int n) {
  const float sum = row_sum<team>(n, [&](float s, int i) { return fmaf(x[i], x[i], s); });
  if (threadIdx.x == 0) y[0] = sum;
}

template <Team team>
std::vector<float> sum_by(const std::vector<float>& x, int threads) {
  const auto dx = on_device(x);
  const auto y = fresh(1);
  dv::launch(sum_kernel<team>, {"sum", dim3(1), dim3(threads), sizeof(PieceSums)}, dx.data(),
             y.data(), int(x.size()));
  return back(y);
}

TEST(RowSum, has_the_same_bits_from_a_thread_a_warp_and_a_block) {
  RandomNumbers random{1};
  for (int n : {1, 3, 8, 9, 40, 63, 64}) {
    const auto x = random.numbers(n);
    EXPECT_TRUE(same_bits(sum_by<Team::thread>(x, 1), sum_by<Team::warp>(x, 32))) << n;
  }
  for (int n : {5, 255, 256, 257, 1000, 2304}) {
    const auto x = random.numbers(n);
    const auto warp = sum_by<Team::warp>(x, 32);
    for (int threads : {32, 64, 256})
      EXPECT_TRUE(same_bits(warp, sum_by<Team::block>(x, threads))) << n;
  }
}

DV_KERNEL(1, 1) elementary_kernel(const float* x, float* y, int n, int which) {
  for (int i = 0; i < n; ++i)
    y[i] = which == 0   ? dv::exp_exact(x[i])
           : which == 1 ? dv::tanh_exact(x[i])
                        : dv::gelu_exact(x[i]);
}

std::vector<float> elementary(const std::vector<float>& x, int which) {
  const auto dx = on_device(x);
  const auto y = fresh(x.size());
  dv::launch(elementary_kernel, {"elementary", dim3(1), dim3(1)}, dx.data(), y.data(),
             int(x.size()), which);
  return back(y);
}

double worst_ulps(const std::vector<float>& x, int which, double (*exact)(double)) {
  const auto y = elementary(x, which);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double truth = exact(x[i]);
    const double ulp = std::ldexp(1.0, std::max(-149, std::ilogb(truth) - 23));
    const double error = std::fabs(y[i] - truth) / ulp;
    if (!(error <= worst)) worst = error;  // NaN too
  }
  return worst;
}

std::vector<float> range(float low, float high, int steps) {
  std::vector<float> x;
  for (int i = 0; i <= steps; ++i) x.push_back(low + (high - low) * float(i) / float(steps));
  return x;
}

TEST(Elementary, functions_are_within_their_ulps) {
  const double exp_ulps =
      worst_ulps(range(-103.f, 88.f, 20011), 0, [](double x) { return std::exp(x); });
  const double tanh_ulps =
      worst_ulps(range(-9.f, 9.f, 20011), 1, [](double x) { return std::tanh(x); });
  printf("exp %.2f ulp, tanh %.2f ulp\n", exp_ulps, tanh_ulps);
  EXPECT_LE(exp_ulps, 1.5);   // 1.01 measured
  EXPECT_LE(tanh_ulps, 2.5);  // 1.6 measured
}

TEST(Elementary, values_that_kernels_rely_on_are_exact) {
  const auto e = elementary({0.f, -INFINITY, -200.f, 200.f, NAN}, 0);
  EXPECT_EQ(e[0], 1.f);
  EXPECT_EQ(e[1], 0.f);
  EXPECT_EQ(e[2], 0.f);
  EXPECT_EQ(e[3], INFINITY);
  EXPECT_NE(e[4], e[4]);
  const auto t = elementary({0.f, 20.f, -20.f, NAN}, 1);
  EXPECT_EQ(t[0], 0.f);
  EXPECT_EQ(t[1], 1.f);
  EXPECT_EQ(t[2], -1.f);
  EXPECT_NE(t[3], t[3]);
  const auto g = elementary({0.f, 50.f, -50.f}, 2);
  EXPECT_EQ(g[0], 0.f);
  EXPECT_EQ(g[1], 50.f);
  EXPECT_EQ(g[2], 0.f);
}

}  // namespace
}  // namespace kvconform::cuda::inline DV_MACHINE
