// A kernel of cuda/kernels/ as a workload: arguments on the device, one launch function, the
// formula in double, and the bytes that no implementation can avoid.
//
//   add_kernel(workloads, "tanh_in_place/count:1000", [](KernelSetUp& set) {
//     auto x = set.numbers("x", 1000);
//     set.launch = [x] { cuda::tanh_in_place(x, 1000); };
//     ...
//   });
#pragma once

#include <cstdint>
#include <list>

#include "bench/workload.h"
#include "cuda/device/device_array.h"

namespace kvconform::bench {

/// What a scenario declares. Arrays live as long as it does; inputs are restored before each run,
/// so that kernels may work in place.
class KernelSetUp {
 public:
  struct Array {
    float* device;
    const std::vector<float>* host;  ///< what it holds before a run
    double operator[](std::size_t i) const { return double((*host)[i]); }
  };
  /// Random numbers in [−1, 1), the same on every machine.
  Array numbers(const char* name, std::size_t count);
  Array output(const char* name, std::size_t count);  ///< NaN before a run
  template <class T>
  const T* integers(const char* name, const std::vector<T>& values);

  std::function<void()> launch;
  Array result;  ///< what is verified
  /// Element i of the result, by the formula; and how far off float arithmetic may put it.
  struct Expected {
    double value, budget;
  };
  std::function<Expected(std::size_t i)> expected;
  double bytes_needed = 0, multiply_adds = 0;

  void restore();
  std::vector<float> result_on_host() const;

 private:
  struct Kept {
    dv::DeviceArray<float> device;
    std::vector<float> host;
  };
  std::list<Kept> arrays_;
  std::list<dv::DeviceArray<unsigned char>> integers_;
};

template <class T>
const T* KernelSetUp::integers(const char* name, const std::vector<T>& values) {
  integers_.emplace_back(0, values.size() * sizeof(T), name);
  integers_.back().upload(reinterpret_cast<const unsigned char*>(values.data()));
  return reinterpret_cast<const T*>(integers_.back().data());
}

inline constexpr double kRounding = 1.0 / (1 << 24);  ///< of float32: half a unit in the last place

/// The budget of a float sum of n terms whose magnitudes add up to `magnitude`.
inline double budget_of_sum(double n, double magnitude) {
  return (n + 1) * kRounding * magnitude;
}

void add_kernel(Workloads& workloads, const std::string& name,
                const std::function<void(KernelSetUp&)>& set_up, Size from = Size::smoke);

}  // namespace kvconform::bench
