// An allocation of device memory that releases itself. Move-only; contents start as NaN bytes.
#pragma once

#include <utility>

#include "cuda/device/memory.h"

namespace dv::inline DV_MEMORY {

template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(int device, std::size_t count, const char* name) : device_(device), count_(count) {
    use_device(device);
    data_ = static_cast<T*>(allocate(count * sizeof(T), name));
  }
  DeviceArray(DeviceArray&& o) noexcept { swap(o); }
  DeviceArray& operator=(DeviceArray&& o) noexcept {
    swap(o);
    return *this;
  }
  ~DeviceArray() { release(data_); }

  T* data() const { return data_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  int device() const { return device_; }

  void upload(const T* host) {
    use_device(device_);
    dv::upload(data_, host, bytes());
  }

 private:
  void swap(DeviceArray& o) {
    std::swap(data_, o.data_);
    std::swap(device_, o.device_);
    std::swap(count_, o.count_);
  }

  T* data_ = nullptr;
  int device_ = 0;
  std::size_t count_ = 0;
};

}  // namespace dv::inline DV_MEMORY
