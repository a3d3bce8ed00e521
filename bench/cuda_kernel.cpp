// Running, judging and counting one kernel.
#include "bench/cuda_kernel.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "bench/counters.h"
#include "bench/cuda_workloads.h"
#include "reference/random.h"

namespace kvconform::bench {
namespace {

class CudaKernel : public Workload {
 public:
  explicit CudaKernel(const std::function<void(KernelSetUp&)>& set_up) { set_up(set_up_); }

  void run() override {
    set_up_.restore();
    if (counted_) return set_up_.launch();
    dv::emu::KernelCounter counter;
    set_up_.launch();
    counted_ = counter.total();
  }

  std::string wrong() override {
    const std::vector<float> seen = set_up_.result_on_host();
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const KernelSetUp::Expected expected = set_up_.expected(i);
      if (!(std::fabs(seen[i] - expected.value) <= expected.budget))
        return fmt::format("element {} is {:.9g}, expected {:.9g} within {:.2g}", i, seen[i],
                           expected.value, expected.budget);
    }
    return "";
  }

  Counts counts() override {
    Counts counts = counts_of(*counted_);
    counts[kBytesNeeded] = set_up_.bytes_needed;
    if (set_up_.multiply_adds > 0) counts[kMultiplyAdds] = set_up_.multiply_adds;
    return counts;
  }

 private:
  KernelSetUp set_up_;
  std::optional<dv::emu::KernelCounts> counted_;
};

}  // namespace

KernelSetUp::Array KernelSetUp::numbers(const char* name, std::size_t count) {
  const Array array = output(name, count);
  RandomStream random(stream_key(7, name));
  for (float& v : arrays_.back().host) v = RandomStream::symmetric(random.next());
  return array;
}

KernelSetUp::Array KernelSetUp::output(const char* name, std::size_t count) {
  arrays_.push_back({dv::DeviceArray<float>(0, count, name),
                     std::vector<float>(count, std::numeric_limits<float>::quiet_NaN())});
  return {arrays_.back().device.data(), &arrays_.back().host};
}

void KernelSetUp::restore() {
  for (Kept& kept : arrays_) kept.device.upload(kept.host.data());
}

std::vector<float> KernelSetUp::result_on_host() const {
  std::vector<float> host(result.host->size());
  dv::synchronize();
  dv::download(host.data(), result.device, host.size() * sizeof(float));
  return host;
}

void add_kernel(Workloads& workloads, const std::string& name,
                const std::function<void(KernelSetUp&)>& set_up, Size from) {
  workloads.push_back(
      {"cuda/kernels/" + name,
       [set_up]() -> std::unique_ptr<Workload> { return std::make_unique<CudaKernel>(set_up); },
       from});
}

}  // namespace kvconform::bench
