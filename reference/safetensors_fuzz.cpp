// Whatever the bytes, the safetensors reader either hands out views that may be read to their last
// byte or throws Error: nothing else comes out, and nothing outside the input is read.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "reference/error.h"
#include "reference/safetensors.h"

namespace {

volatile unsigned sink = 0;  // keeps the reads

void touch(const std::byte* data, std::size_t bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes; ++i) sum += static_cast<unsigned>(data[i]);
  sink = sink + sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kvconform::SafetensorsContent content = kvconform::parse_safetensors(
        reinterpret_cast<const std::byte*>(data), size, "input", nullptr);
    for (const auto& [name, view] : content.table.tensors) {
      if (!view ||
          reinterpret_cast<std::uintptr_t>(view.data) % kvconform::byte_size(view.dtype) != 0)
        std::abort();
      touch(view.data, static_cast<std::size_t>(view.count() * kvconform::byte_size(view.dtype)));
    }
    for (const auto& [name, raw] : content.others) touch(raw.data, raw.bytes);
  } catch (const kvconform::Error&) {
  }
  return 0;
}
