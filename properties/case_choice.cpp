// Choices as hashes of where a case comes from.
#include "properties/case_choice.h"

#include "reference/random.h"

namespace kvconform {

std::uint64_t choice_of(const Case& test_case, const char* purpose) {
  return mix64(stream_key(test_case.seed, purpose) + test_case.index);
}

}  // namespace kvconform
