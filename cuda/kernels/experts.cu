// Which experts a token takes, and the sum of what they gave. One thread a token chooses; sums run
// in ascending order of experts, so that a token's result does not depend on its neighbours.
#include "cuda/kernels/elementwise.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

struct ChooseExperts {
  float* router;
  const float* expert_scale;
  int* chosen;
  float* weights;
  int experts, k;

  DV_FN void softmax(float* r) const {
    float maximum = r[0];
    for (int e = 1; e < experts; ++e) maximum = fmaxf(maximum, r[e]);
    float sum = 0.f;
    for (int e = 0; e < experts; ++e) {
      r[e] = dv::exp_exact(r[e] - maximum);
      sum += r[e];
    }
    for (int e = 0; e < experts; ++e) r[e] = r[e] / sum;
  }
  /// How many experts come before e: larger ones, and equal ones of lower index.
  DV_FN int rank(const float* r, int e) const {
    int before = 0;
    for (int o = 0; o < experts; ++o) before += r[o] > r[e] || (r[o] == r[e] && o < e);
    return before;
  }
  DV_FN void operator()(std::size_t t) const {
    float* r = router + t * experts;
    softmax(r);
    float sum = 0.f;
    int taken = 0;
    for (int e = 0; e < experts && taken < k; ++e) {
      if (rank(r, e) >= k) continue;
      chosen[t * k + taken++] = e;
      sum += r[e];
    }
    for (int j = 0; j < k; ++j) {
      const int e = chosen[t * k + j];
      weights[t * k + j] = r[e] / sum * expert_scale[e];
    }
  }
};

struct CombineExperts {
  const float *results, *weights;
  float* out;
  int k, width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t t = i / width, column = i % width;
    float sum = 0.f;
    for (int j = 0; j < k; ++j) {
      const int w = FAULT(experts_weight_of_the_first_choice) ? 0 : j;
      sum += results[(t * k + j) * width + column] * weights[t * k + w];
    }
    out[i] = sum;
  }
};

}  // namespace

void choose_experts(float* router, const float* expert_scale, int* chosen, float* weights,
                    int tokens, int experts, int k) {
  launch_elementwise("choose_experts", tokens,
                     ChooseExperts{router, expert_scale, chosen, weights, experts, k});
}

void combine_experts(const float* results, const float* weights, float* out, int tokens, int k,
                     int width) {
  launch_elementwise("combine_experts", std::size_t(tokens) * width,
                     CombineExperts{results, weights, out, k, width});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
