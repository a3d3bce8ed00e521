// For tests of kernels: portable random numbers, host vectors on the device, comparing bits, and
// watching a whole test program for races where the kernels are instrumented (WATCHED).
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "cuda/device/device_array.h"
#ifndef WATCHED
#define WATCHED 0
#endif
#if WATCHED
#include "cuda/emulator/checked_run.h"
#endif

namespace kvconform::cuda {

struct RandomNumbers {  // splitmix64
  std::uint64_t state;
  std::uint64_t bits() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  int between(int low, int high) { return low + int(bits() % std::uint64_t(high - low + 1)); }
  float symmetric() { return float(int(bits() >> 40)) / 8388608.f - 1.f; }
  std::vector<float> numbers(std::size_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = symmetric();
    return values;
  }
};

template <class T>
dv::DeviceArray<T> on_device(const std::vector<T>& host, const char* name = "input") {
  dv::DeviceArray<T> array(0, host.size(), name);
  array.upload(host.data());
  return array;
}

inline dv::DeviceArray<float> fresh(std::size_t count, const char* name = "output") {
  return dv::DeviceArray<float>(0, count, name);
}

template <class T>
std::vector<T> back(const dv::DeviceArray<T>& array) {
  std::vector<T> host(array.count());
  dv::synchronize();
  dv::download(host.data(), array.data(), array.bytes());
  return host;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  return true;
}

#if WATCHED
/// Every test of the program runs under the happens-before checker and fails on a report.
class Watch : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    run_ = std::make_unique<dv::emu::CheckedRun>();
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    for (const std::string& report : run_->reports()) ADD_FAILURE() << report;
    EXPECT_TRUE(run_->accesses() > 0 || info.result()->Skipped()) << "nothing was watched";
    run_.reset();
  }
  std::unique_ptr<dv::emu::CheckedRun> run_;
};
inline const bool watching = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Watch);
  return true;
}();
#endif

}  // namespace kvconform::cuda
