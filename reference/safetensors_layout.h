// Where the tensors of a new safetensors file go, decided before a byte of data exists: what lets a
// writer generate tensors piece by piece, in any order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/tensor.h"

namespace kvconform {

struct LaidOutTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t file_offset = 0;  ///< set by lay_out_safetensors, from the start of the file
  std::uint64_t bytes = 0;        ///< likewise
};

/// Orders the tensors (wide formats first, then by name: the format allows no gaps, and so each is
/// aligned), places them one behind the other and returns what stands before the data: header
/// length and header, padded to a multiple of 8. Throws Error KV1221 if they are larger than any
/// file.
std::string lay_out_safetensors(std::vector<LaidOutTensor>& tensors,
                                const std::map<std::string, std::string>& metadata);

}  // namespace kvconform
