// Arithmetic common to both machines, built from operations that IEEE 754 defines bit for bit (add,
// multiply, fmaf, divide, sqrt, integer shifts), so that a CPU predicts what a GPU will return.
// Included by device.h only.
#pragma once

namespace dv::inline DV_MACHINE {

inline constexpr uint32_t all_lanes = 0xffffffffu;

// A butterfly: every lane ends with the same bits, because each step adds the same two numbers.
DV_FN float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(all_lanes, v, o);
  return v;
}

// e^x to 1 ulp: x = n·ln 2 + r with ln 2 in two parts, e^r by a polynomial (fitted at Chebyshev
// nodes, 2e-10), 2^n in two factors so that subnormal results round once. Exactly 1 at 0, 0 far
// below, infinity far above; NaN stays NaN.
DV_FN float exp_exact(float x) {
  const float clamped = x < -104.f ? -104.f : x > 89.f ? 89.f : x;
  const float safe = x != x ? 0.f : clamped;  // int(NaN) is undefined
  const float n = rintf(safe * 1.44269504f);
  const float r = fmaf(n, -1.42860677e-6f, fmaf(n, -0.693145752f, safe));
  float p = 1.98909901e-4f;
  p = fmaf(p, r, 1.39336479e-3f);
  p = fmaf(p, r, 8.33331092e-3f);
  p = fmaf(p, r, 4.16664649e-2f);
  p = fmaf(p, r, 1.66666667e-1f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p * r, r, r) + 1.f;
  const int whole = int(n), half = whole / 2;
  const float scaled = p * __uint_as_float(uint32_t(half + 127) << 23) *
                       __uint_as_float(uint32_t(whole - half + 127) << 23);
  return x != x ? x : scaled;
}

// tanh to 2 ulp: near zero x + x·z·P(z), z = x² (6e-10 up to 0.625), where 1 − 2/(e^2x + 1) would
// cancel.
DV_FN float tanh_exact(float x) {
  const float a = fabsf(x), z = x * x;
  float p = 2.29006151e-3f;
  p = fmaf(p, z, -8.34105044e-3f);
  p = fmaf(p, z, 2.17677813e-2f);
  p = fmaf(p, z, -5.39590637e-2f);
  p = fmaf(p, z, 0.133333022f);
  p = fmaf(p, z, -0.333333331f);
  const float small = fmaf(x * z, p, x);
  const float large = 1.f - 2.f / (exp_exact(2.f * a) + 1.f);
  return a < 0.625f ? small : x < 0.f ? -large : large;
}

// ½x(1 + tanh u), u = √(2/π)(x + 0.044715x³), as x / (1 + e^(−2u)): 1 + tanh u would cancel.
DV_FN float gelu_exact(float x) {
  const float inner = 0.797884561f * (x + 0.044715f * (x * x * x));
  return x / (1.f + exp_exact(-2.f * inner));
}

DV_FN float rsqrt_exact(float x) {
  return 1.0f / sqrtf(x);
}

}  // namespace dv::inline DV_MACHINE
