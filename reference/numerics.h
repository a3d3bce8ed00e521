// The arithmetics a model can be run in. A numerics says which scalar sums are made of, and what
// happens to a number when a model of that precision would write it to memory (`store`) or read it
// as a weight.
//
// The rounding table: `store` is applied to the result of each projection, norm, activation,
// residual addition, element-wise product, rotary table and rotation, attention score, softmax
// weight and attention output. Norms, softmax, router and AltUp's tanh are computed in float32 and
// stored once, as transformers does. Sums are always float32 (or wider), also for bfloat16 and
// float16.
#pragma once

#include <type_traits>

#include "reference/noisy_scalar.h"
#include "reference/tensor.h"

namespace kvconform {

/// IEEE binary32: what goldens hash.
struct Float32 {
  using Scalar = float;
  static constexpr const char* name = "float32";
  static float store(float x) { return x; }
  static float weight(float w) { return w; }
};

/// IEEE binary64: the truth that errors are measured against.
struct Float64 {
  using Scalar = double;
  static constexpr const char* name = "float64";
  static double store(double x) { return x; }
  static double weight(float w) { return w; }
};

/// Sums in float32, tensors stored in bfloat16.
struct BFloat16 {
  using Scalar = float;
  static constexpr const char* name = "bfloat16";
  static float store(float x) { return widen_bf16(narrow_bf16(x)); }
  static float weight(float w) { return store(w); }
};

/// Sums in float32, tensors stored in IEEE binary16.
struct Float16 {
  using Scalar = float;
  static constexpr const char* name = "float16";
  static float store(float x) { return widen_f16(narrow_f16(x)); }
  static float weight(float w) { return store(w); }
};

/// The noise probe; precision and seed come from the NoiseScope in force.
struct Noisy {
  using Scalar = NoisyScalar;
  static constexpr const char* name = "noisy";
  static NoisyScalar store(NoisyScalar x) {
    const Noise& noise = thread_noise();
    if (noise.storage_unit == 0) return x;
    return NoisyScalar(double(x) * (1 + noise.of_storage(double(x))));
  }
  /// A weight keeps its error for the whole run, as a rounded weight does; one that the storage
  /// format holds exactly has none.
  static NoisyScalar weight(float w) {
    const Noise& noise = thread_noise();
    if (noise.storage_unit == 0) return NoisyScalar(w);
    const float narrowed = noise.narrow_to_f16 ? Float16::store(w) : BFloat16::store(w);
    if (narrowed == w) return NoisyScalar(w);
    const std::uint64_t bits = mix64(noise.seed ^ std::bit_cast<std::uint32_t>(w));
    return NoisyScalar(double(w) * (1 + noise.storage_unit * RandomStream::symmetric(bits)));
  }
};

/// Unit roundoff of a precision by its protocol name; 0 for an unknown one.
inline double unit_roundoff(std::string_view dtype) {
  if (dtype == "float64") return 0x1p-53;
  if (dtype == "float32") return 0x1p-24;
  if (dtype == "bfloat16") return 0x1p-9;
  if (dtype == "float16") return 0x1p-12;
  return 0;
}

/// The noise of an engine that computes in `dtype` and sums in float32 (float64 for float64).
inline Noise noise_of(std::string_view dtype, std::uint64_t seed) {
  Noise noise;
  noise.seed = mix64(seed + 1);
  noise.unit = dtype == "float64" ? 0x1p-53 : 0x1p-24;
  if (dtype == "bfloat16" || dtype == "float16") noise.storage_unit = unit_roundoff(dtype);
  noise.narrow_to_f16 = dtype == "float16";
  return noise;
}

}  // namespace kvconform
