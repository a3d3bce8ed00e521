// The order of a long sum is what the definition says, and grouping tokens changes no bit of it.
#include "reference/summation.h"

#include <gtest/gtest.h>

#include <vector>

#include "reference/random.h"

namespace kvconform {
namespace {

std::vector<float> draw(int n, std::uint64_t seed) {
  RandomStream random(stream_key(seed, "summation"));
  std::vector<float> values(n);
  for (float& v : values) v = RandomStream::symmetric(random.next());
  return values;
}

/// The definition, spelled out with no shared code: lanes, tree, pieces.
float spelled_out(const std::vector<float>& a, const std::vector<float>& b) {
  float total = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += 256) {
    float lane[16] = {};
    for (std::size_t i = begin; i < a.size() && i < begin + 256; ++i) {
      const float product = a[i] * b[i];
      lane[(i - begin) % 16] += product;
    }
    const float eighth[8] = {lane[0] + lane[8],  lane[1] + lane[9],  lane[2] + lane[10],
                             lane[3] + lane[11], lane[4] + lane[12], lane[5] + lane[13],
                             lane[6] + lane[14], lane[7] + lane[15]};
    const float quarter[4] = {eighth[0] + eighth[4], eighth[1] + eighth[5], eighth[2] + eighth[6],
                              eighth[3] + eighth[7]};
    total += (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
  }
  return total;
}

TEST(Summation, FollowsTheWrittenOrderAtEveryLength) {
  for (int n : {0, 1, 15, 16, 17, 31, 64, 255, 256, 257, 271, 512, 1000}) {
    const auto a = draw(n, 1), b = draw(n, 2);
    EXPECT_EQ(dot(a.data(), b.data(), n), spelled_out(a, b)) << n;
  }
}

TEST(Summation, DiffersFromAPlainLoopSoThatTheOrderIsReallyTested) {
  const auto a = draw(1000, 1), b = draw(1000, 2);
  float plain = 0;
  for (int i = 0; i < 1000; ++i) plain += a[i] * b[i];
  EXPECT_NE(plain, spelled_out(a, b));
}

TEST(Summation, SeveralProductsAtOnceHaveTheBitsOfEachAlone) {
  for (int n : {1, 16, 100, 256, 300, 777}) {
    const auto w = draw(n, 3);
    std::vector<std::vector<float>> x;
    for (int i = 0; i < 4; ++i) x.push_back(draw(n, 10 + i));
    const float* others[4] = {x[0].data(), x[1].data(), x[2].data(), x[3].data()};
    float results[4];
    dots<4>(w.data(), others, n, results);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(results[i], dot(w.data(), others[i], n)) << n;
  }
}

}  // namespace
}  // namespace kvconform
