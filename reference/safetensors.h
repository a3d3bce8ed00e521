// Safetensors files: a 64-bit header length, a JSON header, the raw data.
// Source: https://huggingface.co/docs/safetensors (format description).
//
// Reading maps the file and checks everything before a pointer is handed out: header size, JSON,
// dtypes, shapes, offsets, overlaps, holes, duplicates, truncation. Errors: KV12xx, naming file,
// tensor and value.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reference/tensor.h"

namespace kvconform {

/// A tensor of a number format that no model here computes with (I64, F64, U8, …), as raw bytes.
struct RawTensor {
  std::string dtype;  ///< as the header spells it
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;  ///< aligned to 8 bytes; kept alive like the table
  std::size_t bytes = 0;
};

/// What a reader found beside the F32, F16 and BF16 tensors in the table.
struct SafetensorsContent {
  TensorTable table;
  /// Tensors of other number formats, so that a needed one can be refused by name.
  std::map<std::string, RawTensor> others;
  std::vector<std::string> other_dtypes;        ///< the same for people: "name (I64)"
  std::map<std::string, std::string> metadata;  ///< `__metadata__`
};

/// Maps one file. Tensors point into the mapping (misaligned ones into a copy), which the table
/// keeps alive.
SafetensorsContent read_safetensors(const std::filesystem::path& file);

/// The same on bytes in memory (`keep_alive` must own them; `bytes` 8-byte aligned saves copies);
/// what the fuzzer drives.
SafetensorsContent parse_safetensors(const std::byte* bytes, std::size_t size,
                                     const std::string& origin,
                                     std::shared_ptr<const void> keep_alive);

/// Writes tensors of any mix of formats through a temporary file that replaces `file` only when
/// complete. Data starts 8-byte aligned; wide formats lie before narrow ones, then by name, so that
/// every tensor is aligned although the format allows no gaps. Throws HarnessError KV1220 (cannot
/// write: disk full, …).
void write_safetensors(const std::filesystem::path& file, const TensorTable& table,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace kvconform
