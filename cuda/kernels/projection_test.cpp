// A row of a product has the same bits whatever the number of rows and whoever computes which piece
// of K; and it is the product. On both machines.
#include <algorithm>
#include <cmath>

#include "cuda/kernels/kernels.h"
#include "cuda/test_arrays.h"

namespace kvconform::cuda {
namespace {

struct Product {
  int k, outputs;
  std::vector<float> x, w, bias;  // [T, K], [K, N], [N]
  Product(int k_, int outputs_, int tokens) : k(k_), outputs(outputs_) {
    RandomNumbers random{std::uint64_t(k_) * 131 + outputs_};
    x = random.numbers(std::size_t(tokens) * k);
    w = random.numbers(std::size_t(k) * outputs);
    bias = random.numbers(outputs);
  }

  std::vector<float> times(int first, int tokens, ProjectionForm form,
                           bool with_bias = false) const {
    const auto dx = on_device(std::vector<float>(x.begin() + std::size_t(first) * k,
                                                 x.begin() + std::size_t(first + tokens) * k));
    const auto dw = on_device(w), db = on_device(bias);
    const auto y = fresh(std::size_t(tokens) * outputs);
    const auto work = fresh(projection_workspace(tokens, k, outputs), "workspace");
    Projection p{dx.data(), dw.data(), with_bias ? db.data() : nullptr,
                 y.data(),  tokens,    k,
                 outputs,   k,         outputs};
    p.form = form;
    p.workspace = work.data();
    p.workspace_floats = work.count();
    project(p);
    return back(y);
  }
};

std::vector<float> rows(const std::vector<float>& all, int first, int count, int width) {
  return {all.begin() + std::size_t(first) * width,
          all.begin() + std::size_t(first + count) * width};
}

TEST(Projection, a_row_does_not_depend_on_its_neighbours_or_on_who_shares_k) {
  for (auto [k, outputs] : {std::pair{1, 3}, {24, 130}, {256, 40}, {257, 33}, {1200, 70}}) {
    const int tokens = 19;
    const Product product(k, outputs, tokens);
    const auto all = product.times(0, tokens, ProjectionForm::loop);
    for (auto form : {ProjectionForm::by_shape, ProjectionForm::loop, ProjectionForm::group,
                      ProjectionForm::split})
      for (auto [first, count] : {std::pair{0, 1}, {7, 1}, {3, 2}, {8, 8}, {5, 9}, {0, tokens}})
        EXPECT_TRUE(same_bits(rows(all, first, count, outputs), product.times(first, count, form)))
            << "K " << k << " N " << outputs << " rows " << first << "+" << count << " form "
            << int(form);
  }
}

TEST(Projection, is_the_product_and_the_bias) {
  const Product p(600, 37, 3);
  const auto y = p.times(0, 3, ProjectionForm::by_shape, true);
  for (int t = 0; t < 3; ++t)
    for (int n = 0; n < p.outputs; ++n) {
      double sum = p.bias[n], size = 0;
      for (int k = 0; k < p.k; ++k) {
        const double term = double(p.x[t * p.k + k]) * p.w[k * p.outputs + n];
        sum += term;
        size += std::fabs(term);
      }
      // A chain of 256 and a fold of 3: at most 259 roundings of u = 2^-24 of what was added.
      EXPECT_LE(std::fabs(y[t * p.outputs + n] - sum), 259 * 0x1p-24 * size + 0x1p-22);
    }
}

TEST(Projection, a_chain_over_all_of_k_is_another_number) {  // the pieces are not decoration
  const Product p(2048, 16, 1);
  const auto y = p.times(0, 1, ProjectionForm::by_shape);
  int different = 0;
  for (int n = 0; n < p.outputs; ++n) {
    float chain = 0.f;
    for (int k = 0; k < p.k; ++k) chain = std::fmaf(p.x[k], p.w[k * p.outputs + n], chain);
    different += chain != y[n];
  }
  EXPECT_GT(different, 8);
}

TEST(Projection, experts_multiply_their_own_matrix) {
  const int k = 20, outputs = 9, experts = 3, tokens = 4, share = 2;
  RandomNumbers random{5};
  const auto x = random.numbers(tokens * k), w = random.numbers(experts * k * outputs);
  const std::vector<int> chosen = {0, 2, 1, 2, 0, 1, 1, 2};
  const auto dx = on_device(x), dw = on_device(w);
  const auto dc = on_device(chosen);
  const auto y = fresh(chosen.size() * outputs);
  Projection p{dx.data(), dw.data(), nullptr, y.data(), int(chosen.size()), k, outputs, k, outputs};
  p.experts = dc.data();
  p.share = share;
  project(p);
  const auto result = back(y);
  for (std::size_t r = 0; r < chosen.size(); ++r)
    for (int n = 0; n < outputs; ++n) {
      float chain = 0.f;
      for (int i = 0; i < k; ++i)
        chain = std::fmaf(x[r / share * k + i], w[(chosen[r] * k + i) * outputs + n], chain);
      EXPECT_EQ(result[r * outputs + n], chain);
    }
}

}  // namespace
}  // namespace kvconform::cuda
