// A number whose every operation is off by a random relative error of at most u: Monte Carlo
// arithmetic (Parker 1997). Running the reference on such numbers a few times shows what arithmetic
// in a given precision costs on the case at hand; see README.md, "Numerics".
//
// The error is a pure function of the seed and the exact result, as real rounding is one of the
// result: so it does not depend on the order in which a compiler evaluates operands, and the probe
// gives the same bits everywhere. The seed is per thread and set by a NoiseScope, so that a number
// stays eight bytes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/elementary.h"
#include "reference/random.h"
#include "reference/tensor.h"

namespace kvconform {

struct Noise {
  std::uint64_t seed = 0;
  double unit = 0;  ///< u of the accumulation precision
  /// u of the precision tensors are stored in; 0: as precise as the arithmetic.
  double storage_unit = 0;
  bool narrow_to_f16 = false;

  /// Relative error of an exact result, uniform in [-unit, unit).
  double of_operation(double exact) const { return unit * draw(exact, seed); }
  /// Relative error of storing a number, independent of the one above.
  double of_storage(double exact) const { return storage_unit * draw(exact, ~seed); }

 private:
  static double draw(double exact, std::uint64_t key) {
    const std::uint64_t bits = mix64(key + std::bit_cast<std::uint64_t>(exact));
    return static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63;
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
    const double error = thread_noise().of_operation(exact);
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
