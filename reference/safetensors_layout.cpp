// Placement and header text of a new safetensors file.
#include "reference/safetensors_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "reference/error.h"

namespace kvconform {

namespace {

std::uint64_t checked_bytes(const LaidOutTensor& tensor, std::uint64_t begin) {
  std::int64_t bytes = byte_size(tensor.dtype), end = 0;
  bool overflow = false;
  for (std::int64_t length : tensor.shape)
    overflow = __builtin_mul_overflow(bytes, length, &bytes) || overflow;
  overflow = __builtin_add_overflow(static_cast<std::int64_t>(begin), bytes, &end) || overflow;
  if (overflow)
    throw Error("KV1221",
                fmt::format("tensor {} of shape {} is larger than any file", tensor.name,
                            shape_text(tensor.shape)),
                "choose a smaller model");
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

std::string lay_out_safetensors(std::vector<LaidOutTensor>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const LaidOutTensor& a, const LaidOutTensor& b) {
    return std::make_tuple(-byte_size(a.dtype), std::cref(a.name)) <
           std::make_tuple(-byte_size(b.dtype), std::cref(b.name));
  });
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t covered = 0;
  for (LaidOutTensor& tensor : tensors) {
    tensor.bytes = checked_bytes(tensor, covered);
    tensor.file_offset = covered;
    covered += tensor.bytes;
    header[tensor.name] = {{"dtype", to_string(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.file_offset, covered}}};
  }

  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  for (LaidOutTensor& tensor : tensors) tensor.file_offset += sizeof length + length;
  std::string prelude(sizeof length, '\0');
  std::memcpy(prelude.data(), &length, sizeof length);
  return prelude + text;
}

}  // namespace kvconform
