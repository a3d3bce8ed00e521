// A number whose every operation is off by a random relative error of at most u: Monte Carlo
// arithmetic (Parker 1997). Running the reference on such numbers a few times shows what arithmetic
// in a given precision costs on the case at hand; see README.md, "Numerics".
//
// The generator is per thread and set by a NoiseScope, so that a number stays eight bytes. It is
// the one piece of thread-local state here, and nothing but this probe reads it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/elementary.h"
#include "reference/random.h"
#include "reference/tensor.h"

namespace kvconform {

struct Noise {
  std::uint64_t state = 0;
  std::uint64_t seed = 0;
  double unit = 0;  ///< u of the accumulation precision
  double storage_unit =
      0;  ///< u of the precision tensors are stored in; 0: as precise as the arithmetic
  bool narrow_to_f16 = false;

  /// Uniform in [-1, 1). The high half of a 64-bit linear congruential generator (Knuth's MMIX
  /// constants).
  double draw() {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31;
  }
};

inline Noise& thread_noise() {
  thread_local Noise noise;
  return noise;
}

/// Sets this thread's noise for as long as it lives.
class NoiseScope {
 public:
  explicit NoiseScope(const Noise& noise) : before_(thread_noise()) { thread_noise() = noise; }
  ~NoiseScope() { thread_noise() = before_; }
  NoiseScope(const NoiseScope&) = delete;
  NoiseScope& operator=(const NoiseScope&) = delete;

 private:
  Noise before_;
};

class NoisyScalar {
 public:
  NoisyScalar() = default;
  explicit NoisyScalar(double exact) : value_(exact) {}
  explicit operator double() const { return value_; }

  static NoisyScalar rounded(double exact) {
    Noise& noise = thread_noise();
    const double error = noise.unit * noise.draw();
    // An exp that overflows is meant to (gelu divides by it): infinity minus infinity would be NaN.
    return NoisyScalar(std::isinf(exact) ? exact : exact + exact * error);
  }

  friend NoisyScalar operator+(NoisyScalar a, NoisyScalar b) {
    return rounded(a.value_ + b.value_);
  }
  friend NoisyScalar operator-(NoisyScalar a, NoisyScalar b) {
    return rounded(a.value_ - b.value_);
  }
  friend NoisyScalar operator*(NoisyScalar a, NoisyScalar b) {
    return rounded(a.value_ * b.value_);
  }
  friend NoisyScalar operator/(NoisyScalar a, NoisyScalar b) {
    return rounded(a.value_ / b.value_);
  }
  friend bool operator<(NoisyScalar a, NoisyScalar b) { return a.value_ < b.value_; }
  friend bool operator>(NoisyScalar a, NoisyScalar b) { return a.value_ > b.value_; }

 private:
  double value_ = 0;
};

inline NoisyScalar exact_exp(NoisyScalar x) {
  return NoisyScalar::rounded(exact_exp(double(x)));
}
inline NoisyScalar exact_tanh(NoisyScalar x) {
  return NoisyScalar::rounded(exact_tanh(double(x)));
}
inline NoisyScalar exact_sin(NoisyScalar x) {
  return NoisyScalar::rounded(exact_sin(double(x)));
}
inline NoisyScalar exact_cos(NoisyScalar x) {
  return NoisyScalar::rounded(exact_cos(double(x)));
}
inline NoisyScalar exact_sqrt(NoisyScalar x) {
  return NoisyScalar::rounded(exact_sqrt(double(x)));
}
inline NoisyScalar exact_pow(NoisyScalar x, NoisyScalar y) {
  return NoisyScalar::rounded(exact_pow(double(x), double(y)));
}

}  // namespace kvconform
