// The JSON header of a safetensors file, read entry by entry without building a document, so that
// depth, duplicate keys and number formats are all judged as they are met. Errors: KV1206–KV1212,
// KV1218.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvconform {

struct HeaderEntry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< byte range in the data section; begin ≤ end
  std::uint64_t bytes = 0;           ///< what dtype and shape need
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  ///< in the order of the header
  std::map<std::string, std::string> metadata;
};

/// `origin` is named in errors.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& origin);

/// A name as an error message may print it: quoted, control characters escaped, shortened.
std::string quoted_name(std::string_view name);

}  // namespace kvconform
