// A row of attention has the same bits in a loop over its pieces and split over blocks, on a linear
// cache and on the smallest ring, in one call and token by token; keys it may not see are never
// read (they are NaN here); and it is attention. On both machines.
#include <algorithm>
#include <cmath>

#include "cuda/kernels/kernels.h"
#include "cuda/test_arrays.h"

namespace kvconform::cuda {
namespace {

struct Shape {
  int length, query_heads, key_heads, head_dim, window;  // window 0: full
};
const Shape shapes[] = {{150, 4, 2, 6, 70},  {140, 6, 2, 16, 0}, {140, 8, 1, 8, 33},
                        {131, 2, 2, 64, 64}, {70, 9, 1, 40, 65}, {66, 2, 1, 512, 2},
                        {20, 1, 1, 4, 1}};

struct Sequence {
  Shape s;
  int slots;
  std::vector<float> q, k, v;
  dv::DeviceArray<float> keys, values;

  Sequence(const Shape& shape, int slots_) : s(shape), slots(slots_) {
    RandomNumbers random{std::uint64_t(shape.length)};
    q = random.numbers(std::size_t(s.length) * s.query_heads * s.head_dim);
    k = random.numbers(std::size_t(s.length) * s.key_heads * s.head_dim);
    v = random.numbers(k.size());
    keys = fresh(std::size_t(slots) * s.key_heads * s.head_dim, "keys");
    values = fresh(std::size_t(slots) * s.key_heads * s.head_dim, "values");
  }

  static std::vector<float> part(const std::vector<float>& all, int first, int count, int width) {
    return {all.begin() + std::size_t(first) * width,
            all.begin() + std::size_t(first + count) * width};
  }

  /// Tokens [first, first + count): appended, then attended.
  std::vector<float> extend(int first, int count, AttentionForm form) {
    const int q_width = s.query_heads * s.head_dim, k_width = s.key_heads * s.head_dim;
    std::vector<TokenPlace> places;
    for (int i = 0; i < count; ++i) places.push_back({0, first + i, first + count - 1});
    const auto at = on_device(places);
    const auto dq = on_device(part(q, first, count, q_width)),
               dk = on_device(part(k, first, count, k_width)),
               dval = on_device(part(v, first, count, k_width));
    const OwnerCache cache{keys.data(), values.data(), slots};
    append_to_cache(dk.data(), dval.data(), cache, at.data(), count, s.key_heads, s.head_dim);
    const auto out = fresh(std::size_t(count) * q_width);
    const int pieces = (s.length + kKeyPiece - 1) / kKeyPiece;
    const auto work =
        fresh(attention_workspace(count, s.query_heads, s.head_dim, pieces), "workspace");
    const int behind = s.window == 0 ? kEverything : s.window - 1;
    Attention a{dq.data(),   cache,      at.data(), out.data(), count, s.query_heads,
                s.key_heads, s.head_dim, behind,    0,          pieces};
    a.form = form;
    a.workspace = work.data();
    a.workspace_floats = work.count();
    attend(a);
    return back(out);
  }

  std::vector<float> in_chunks(int longest, std::uint64_t seed) {
    RandomNumbers random{seed};
    std::vector<float> all;
    for (int at = 0; at < s.length;) {
      const int count = std::min(s.length - at, random.between(1, longest));
      const auto form = random.between(0, 1) ? AttentionForm::loop : AttentionForm::split;
      const auto some = extend(at, count, form);
      all.insert(all.end(), some.begin(), some.end());
      at += count;
    }
    return all;
  }
};

int linear(const Shape& s) {
  return (s.length + 63) / 64 * 64;
}
int ring(const Shape& s, int chunk) {
  return s.window == 0 ? linear(s) : std::min(linear(s), s.window - 1 + chunk);
}

TEST(Attention, has_the_same_bits_for_every_chunking_form_and_ring) {
  for (const Shape& s : shapes) {
    const auto whole = Sequence(s, linear(s)).extend(0, s.length, AttentionForm::loop);
    for (float x : whole) ASSERT_EQ(x, x) << "a key nobody may see was read";
    EXPECT_TRUE(same_bits(whole, Sequence(s, linear(s)).extend(0, s.length, AttentionForm::split)));
    for (auto [longest, seed] : {std::pair{1, 2}, {5, 3}, {40, 4}})
      EXPECT_TRUE(same_bits(whole, Sequence(s, ring(s, longest)).in_chunks(longest, seed)))
          << "length " << s.length << " window " << s.window << " chunks up to " << longest;
  }
}

TEST(Attention, a_ring_one_slot_too_small_shows) {
  const Shape s = shapes[0];
  const auto whole = Sequence(s, linear(s)).extend(0, s.length, AttentionForm::loop);
  const auto in_forties = [&](int slots) {
    Sequence sequence(s, slots);
    std::vector<float> all;
    for (int at = 0; at < s.length; at += 40) {
      const auto some = sequence.extend(at, std::min(40, s.length - at), AttentionForm::loop);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
  EXPECT_TRUE(same_bits(whole, in_forties(ring(s, 40))));
  EXPECT_FALSE(same_bits(whole, in_forties(ring(s, 40) - 1)));
}

TEST(Attention, is_softmax_of_the_scores_over_the_window) {
  for (const Shape& s : shapes) {
    Sequence sequence(s, linear(s));
    const auto out = sequence.extend(0, s.length, AttentionForm::by_shape);
    for (int t : {0, s.length / 2, s.length - 1})
      for (int h = 0; h < s.query_heads; ++h) {
        const int kh = h / (s.query_heads / s.key_heads), d = s.head_dim;
        const int first = s.window == 0 ? 0 : std::max(0, t - s.window + 1);
        double sum = 0;
        std::vector<double> mixed(d);
        for (int p = first; p <= t; ++p) {
          double score = 0;
          for (int i = 0; i < d; ++i)
            score += double(sequence.q[(t * s.query_heads + h) * d + i]) *
                     sequence.k[(p * s.key_heads + kh) * d + i];
          const double weight = std::exp(score);
          sum += weight;
          for (int i = 0; i < d; ++i)
            mixed[i] += weight * sequence.v[(p * s.key_heads + kh) * d + i];
        }
        // Values of size 1 and scores of size up to 20: 2e-6 was measured.
        for (int i = 0; i < d; ++i)
          EXPECT_NEAR(out[(t * s.query_heads + h) * d + i], mixed[i] / sum, 2e-5);
      }
  }
}

TEST(Attention, rows_of_a_batch_read_their_own_cache) {
  const int slots = 8, d = 4;
  RandomNumbers random{3};
  const auto k = random.numbers(3 * d), v = random.numbers(3 * d), q = random.numbers(3 * d);
  const auto keys = fresh(2 * slots * d, "keys"), values = fresh(2 * slots * d, "values"),
             out = fresh(3 * d);
  const auto places = on_device<TokenPlace>({{0, 0, 1}, {0, 1, 1}, {1, 0, 0}});
  const auto dk = on_device(k), dval = on_device(v), dq = on_device(q);
  const OwnerCache cache{keys.data(), values.data(), slots};
  append_to_cache(dk.data(), dval.data(), cache, places.data(), 3, 1, d);
  attend({dq.data(), cache, places.data(), out.data(), 3, 1, 1, d, kEverything, 0, 1});
  const auto result = back(out);
  // A row's first token sees only itself: its output is its value.
  EXPECT_TRUE(same_bits({result.begin(), result.begin() + d}, {v.begin(), v.begin() + d}));
  EXPECT_TRUE(same_bits({result.begin() + 2 * d, result.end()}, {v.begin() + 2 * d, v.end()}));
}

}  // namespace
}  // namespace kvconform::cuda
