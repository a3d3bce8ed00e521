// Reading replies strictly.
#include "properties/subjects/protocol_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "properties/subjects/last_words.h"
#include "reference/counted.h"
#include "reference/model_config.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 200;
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 31;

[[noreturn]] void violation(const std::string& words) {
  throw ProtocolViolation(words);
}

const json& field(const json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end()) violation(fmt::format("lacks the field \"{}\"", name));
  return *found;
}

[[noreturn]] void wrong(const std::string& name, const json& value, const std::string& expected) {
  violation(fmt::format("has the field \"{}\" with {}, not {}", name,
                        printable(value.dump(), kShown), expected));
}

std::string text(const json& object, const std::string& name) {
  const json& value = field(object, name);
  if (!value.is_string()) wrong(name, value, "a string");
  return value.get<std::string>();
}

std::int64_t whole(const json& value, const std::string& name, std::int64_t least,
                   std::int64_t most) {
  const bool integer = value.is_number_integer();
  const bool huge = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<long>::max());
  if (!integer || huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    wrong(name, value, fmt::format("an integer from {} to {}", least, most));
  }
  return value.get<std::int64_t>();
}

const json& list(const json& object, const std::string& name) {
  const json& value = field(object, name);
  if (!value.is_array()) wrong(name, value, "a list");
  return value;
}

std::set<std::string> words(const json& object, const std::string& name) {
  std::set<std::string> all;
  for (const json& value : list(object, name)) {
    if (!value.is_string()) wrong(name, value, "a list of strings");
    all.insert(value.get<std::string>());
  }
  return all;
}

int optional_whole(const json& object, const std::string& name, int fallback, int least) {
  if (!object.contains(name)) return fallback;
  return static_cast<int>(whole(object[name], name, least, std::numeric_limits<int>::max()));
}

const std::set<std::string>& known_families() {
  static const std::set<std::string> names = {to_string(Family::gemma3n),
                                              to_string(Family::gemma4)};
  return names;
}

const std::set<std::string>& known_capabilities() {
  static const std::set<std::string> names = {
      "score",   "cache", "chunked",      "batch", "ragged",      "rewind", "fork",
      "reorder", "save",  "cache_report", "trace", "sharing_map", "start"};
  return names;
}

TraceArray trace_header(const json& entry, int positions) {
  if (!entry.is_object()) wrong("trace", entry, "a list of objects");
  TraceArray array;
  array.name = text(entry, "name");
  std::int64_t numbers = 1;
  for (const json& axis : list(entry, "shape")) {
    array.shape.push_back(whole(axis, "shape", 0, kMostNumbers));
    numbers *= array.shape.back();  // both factors at most 2³¹: fits
    if (numbers > kMostNumbers) wrong("shape", entry["shape"], "the shape of a trace array");
  }
  if (array.shape.empty() || array.shape[0] != positions) {
    violation(fmt::format("has the trace array {} with the shape {}, not one entry for each of {}",
                          printable(array.name, kShown), entry["shape"].dump(),
                          counted(positions, "position")));
  }
  return array;
}

std::int64_t count(const std::vector<std::int64_t>& shape) {
  std::int64_t numbers = 1;
  for (std::int64_t axis : shape) numbers *= axis;
  return numbers;
}

CacheReport::Layer cache_layer(const json& entry, int index) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (!entry.is_object()) wrong("layers", entry, "a list of objects");
  CacheReport::Layer layer;
  layer.layer = static_cast<int>(whole(field(entry, "layer"), "layer", index, index));
  layer.role = text(entry, "role");
  if (layer.role != "producer" && layer.role != "consumer" && layer.role != "independent") {
    wrong("role", entry["role"], "producer, consumer or independent");
  }
  layer.owner = static_cast<int>(whole(field(entry, "owner"), "owner", 0, index));
  layer.positions = whole(field(entry, "positions"), "positions", 0, most);
  layer.bytes = whole(field(entry, "bytes"), "bytes", 0, most);
  return layer;
}

/// A misspelt family or capability would leave out cases, and nobody would know.
void require_known(const std::set<std::string>& names, const std::string& where,
                   const std::set<std::string>& known, const char* remedy) {
  for (const std::string& name : names) {
    if (known.count(name)) continue;
    wrong(where, json(name), fmt::format("some of {}; {}", fmt::join(known, ", "), remedy));
  }
}

/// Little-endian binary32, whatever this machine is.
double number_at(const std::string& payload, std::size_t index) {
  std::uint32_t bits = 0;
  for (int byte = 3; byte >= 0; --byte) {
    bits = bits << 8 | static_cast<unsigned char>(payload[4 * index + std::size_t(byte)]);
  }
  return std::bit_cast<float>(bits);
}

/// Length of the UTF-8 sequence at `i`, 0 if there is none.
std::size_t utf8_length(const std::string& bytes, std::size_t i) {
  const auto lead = static_cast<unsigned char>(bytes[i]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe1 && lead < 0xed ? 3
                                                           : 0;  // the rest has forbidden ranges
  if (length == 0 || i + length > bytes.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((static_cast<unsigned char>(bytes[i + k]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

json parse_reply(const std::string& line) {
  json reply = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (reply.is_discarded() || !reply.is_object()) {
    violation(fmt::format("is not a message: \"{}\"", printable(line, kShown)));
  }
  if (!is_error(reply) && reply.value("ok", json(nullptr)) != json(true)) {
    violation(fmt::format("has neither \"ok\": true nor \"error\": {}", printable(line, kShown)));
  }
  return reply;
}

bool is_error(const json& reply) {
  return reply.contains("error");
}

ErrorReply parse_error(const json& reply) {
  const json& error = field(reply, "error");
  if (!error.is_object()) wrong("error", error, "an object with kind and message");
  ErrorReply parsed{text(error, "kind"), message_in_words(text(error, "message"), 2000)};
  if (parsed.kind != "unsupported" && parsed.kind != "invalid" && parsed.kind != "failed") {
    wrong("kind", error["kind"], "unsupported, invalid or failed");
  }
  return parsed;
}

SubjectInfo parse_hello(const json& reply) {
  SubjectInfo info;
  info.name = printable(text(reply, "name"), kShown);
  info.version = printable(text(reply, "version"), kShown);
  info.families = words(reply, "families");
  require_known(info.families, "families", known_families(),
                "name those that your engine runs, it is asked about no other models");
  info.dtype = text(reply, "dtype");
  const std::set<std::string> dtypes = {"float64", "float32", "bfloat16", "float16"};
  if (!dtypes.count(info.dtype)) {
    wrong("dtype", reply["dtype"], fmt::format("one of {}", fmt::join(dtypes, ", ")));
  }
  info.capabilities = words(reply, "capabilities");
  require_known(info.capabilities, "capabilities", known_capabilities(),
                "name what your engine can do of that, and nothing else");
  info.margin = optional_whole(reply, "margin", 0, 0);
  info.granularity = optional_whole(reply, "granularity", 1, 1);
  if (reply.contains("bit_stable")) {
    if (!reply["bit_stable"].is_boolean())
      wrong("bit_stable", reply["bit_stable"], "true or false");
    info.bit_stable = reply["bit_stable"].get<bool>();
  }
  return info;
}

std::string parse_id(const json& reply, const std::string& name) {
  const json& id = field(reply, name);
  if (!id.is_number_integer() && !id.is_string()) wrong(name, id, "an integer or a string");
  return id.dump();
}

CacheReport parse_cache(const json& reply, int batch, int layers) {
  CacheReport report;
  for (const json& length : list(reply, "lengths")) {
    report.lengths.push_back(
        static_cast<int>(whole(length, "lengths", 0, std::numeric_limits<int>::max())));
  }
  if (batch >= 0 && report.lengths.size() != std::size_t(batch)) {
    violation(fmt::format("has {} for {}", counted(report.lengths.size(), "length"),
                          counted(batch, "row")));
  }
  for (const json& entry : list(reply, "layers")) {
    report.layers.push_back(cache_layer(entry, static_cast<int>(report.layers.size())));
  }
  if (report.layers.size() != std::size_t(layers)) {
    violation(fmt::format("reports {} of {}", counted(report.layers.size(), "layer"), layers));
  }
  report.replays = optional_whole(reply, "replays", 0, 0);
  return report;
}

std::int64_t PayloadLayout::bytes() const {
  std::int64_t numbers = std::int64_t{positions} * vocab;
  for (const TraceArray& array : trace) numbers += count(array.shape);
  return 4 * numbers;
}

PayloadLayout payload_layout(const json& reply, int positions, int vocab, bool trace) {
  PayloadLayout layout{positions, vocab, {}};
  if (!trace) return layout;
  for (const json& entry : list(reply, "trace")) {
    layout.trace.push_back(trace_header(entry, positions));
    if (layout.bytes() > 4 * kMostNumbers) violation("announces traces of more than 8 GiB");
  }
  return layout;
}

void check_payload_size(const json& reply, std::int64_t expected) {
  std::int64_t announced = 0;
  if (reply.contains("payload")) {
    announced = whole(reply["payload"], "payload", 0, std::numeric_limits<std::int64_t>::max());
  }
  if (announced == expected) return;
  violation(
      fmt::format("announces a payload of {}, expected {}", counted(announced, "byte"), expected));
}

Output decode_payload(const std::string& payload, const PayloadLayout& layout) {
  Output output;
  output.logits.positions = layout.positions;
  output.logits.vocab = layout.vocab;
  output.trace = layout.trace;
  std::size_t next = 0;
  const auto take = [&](std::vector<double>& values, std::int64_t numbers) {
    values.reserve(static_cast<std::size_t>(numbers));
    for (std::int64_t i = 0; i < numbers; ++i) values.push_back(number_at(payload, next++));
  };
  take(output.logits.values, std::int64_t{layout.positions} * layout.vocab);
  for (TraceArray& array : output.trace) take(array.values, count(array.shape));
  return output;
}

json text_config(const Checkpoint& checkpoint) {
  const json& whole_config = checkpoint.config_json();
  if (!whole_config.contains("text_config")) return whole_config;
  json config = whole_config["text_config"];
  // What a multimodal config says outside the part that is sent.
  config["model_type"] = to_string(checkpoint.config().family);
  config["tie_word_embeddings"] = checkpoint.config().tie_word_embeddings;
  return config;
}

json ModelSource::text_config() const {
  return kvconform::text_config(*checkpoint());
}

std::string printable(const std::string& bytes, std::size_t most) {
  std::string shown;
  for (std::size_t i = 0; i < bytes.size();) {
    if (i >= most) return shown + "…";
    const std::size_t length = utf8_length(bytes, i);
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte == '\n') {
      shown += " | ";
    } else if (length == 0 || (byte < 0x20 && byte != '\t') || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown.append(bytes, i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return shown;
}

}  // namespace kvconform
