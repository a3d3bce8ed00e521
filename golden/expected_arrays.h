// Reads `expected.safetensors`: the arrays that other software computed, and the stored logits of
// goldens.
//
// A separate, small reader on purpose: truth must not pass through the loader that it judges. It
// knows F32, F64 and I64, widens to double, and tolerates nothing: a hole, an overlap, a duplicate
// name, another number format, a truncated file or a value that is not finite is an Error KV3003.
// An I64 value beyond 2^53 is refused as well, since a double could not hold it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvconform {

struct ExpectedArray {
  std::string dtype;  ///< "F32", "F64" or "I64", as stored
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

using ExpectedArrays = std::map<std::string, ExpectedArray>;

ExpectedArrays read_expected_arrays(const std::filesystem::path& file);

/// The array of that name; Error KV3003 naming `file` if there is none.
const ExpectedArray& expected_array(const ExpectedArrays& arrays, const std::string& name,
                                    const std::filesystem::path& file);

}  // namespace kvconform
