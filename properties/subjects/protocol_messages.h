// The messages of the subject protocol (properties/subject-protocol.md): what a reply must look
// like, checked field by field. Knows JSON and no process; everything a subject may send wrong ends
// in a ProtocolViolation whose words complete the sentence "its reply …".
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "properties/subject.h"

namespace kvconform {

class ProtocolViolation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A reply is a line of at most so many bytes.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

/// One line of JSON that is an object. Neither `ok` nor `error`: a violation.
nlohmann::json parse_reply(const std::string& line);

struct ErrorReply {
  std::string kind, message;  ///< kind: unsupported, invalid or failed
};
bool is_error(const nlohmann::json& reply);
ErrorReply parse_error(const nlohmann::json& reply);

SubjectInfo parse_hello(const nlohmann::json& reply);

/// An id that the subject chose, an integer or a string, as JSON text.
std::string parse_id(const nlohmann::json& reply, const std::string& field);

/// `batch`: −1 where it is not known.
CacheReport parse_cache(const nlohmann::json& reply, int batch, int layers);

/// What the payload of a `score` or `extend` must hold: the logits, then the arrays of the trace.
struct PayloadLayout {
  int positions = 0, vocab = 0;
  std::vector<TraceArray> trace;  ///< names and shapes, without values
  std::int64_t bytes() const;     ///< little-endian binary32
};
PayloadLayout payload_layout(const nlohmann::json& reply, int positions, int vocab, bool trace);

/// Holds the announced size against what must come, before anything is read or allocated.
void check_payload_size(const nlohmann::json& reply, std::int64_t expected);

Output decode_payload(const std::string& payload, const PayloadLayout& layout);

/// The text config alone, complete, as `load` sends it.
nlohmann::json text_config(const Checkpoint& checkpoint);

/// Bytes from outside, fit for one line of a report: control characters and what is not UTF-8
/// become \xNN, line ends " | ", more than `most` bytes end in "…".
std::string printable(const std::string& bytes, std::size_t most);

}  // namespace kvconform
