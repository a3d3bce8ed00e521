// Copying and multiplying, see machine_speed.h.
#include "bench/machine_speed.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace kvconform::bench {
namespace {

constexpr std::size_t kCopied = std::size_t(64) << 20;  // more than any cache of two cores
constexpr int kTries = 5;

/// Four numbers in a register: what every 64-bit processor has.
using Four = float __attribute__((vector_size(16)));

/// `rounds` × 16 registers × 4 multiplications with additions; independent, so that only the
/// arithmetic can be what takes time.
float multiply_add(long rounds) {
  Four sums[16], factor = {0.999f, 0.998f, 0.997f, 0.996f};
  for (Four& sum : sums) sum = Four{1, 1, 1, 1};
  for (long i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (Four& sum : sums) sum = sum * factor + factor;
  }
  Four total = sums[0];
  for (int i = 1; i < 16; ++i) total += sums[i];
  return total[0] + total[1] + total[2] + total[3];
}

double best_copy() {
  std::vector<char> from(kCopied, 1), to(kCopied, 2);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double begin = thread_seconds();
    std::memcpy(to.data(), from.data(), kCopied);
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy must happen
    best = std::max(best, 2.0 * double(kCopied) / (thread_seconds() - begin));
  }
  return best;
}

double best_multiply_add() {
  constexpr long rounds = 400'000;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double begin = thread_seconds();
    volatile float keep = multiply_add(rounds);
    static_cast<void>(keep);
    best = std::max(best, double(rounds) * 64 / (thread_seconds() - begin));
  }
  return best;
}

}  // namespace

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

MachineSpeed measure_machine() {
  return {best_copy(), best_multiply_add()};
}

}  // namespace kvconform::bench
