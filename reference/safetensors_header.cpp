// A SAX handler with a depth of at most three: header, entry, list. Nothing recurses, so nesting
// cannot exhaust the stack, and a repeated key is seen although a JSON document would swallow it.
#include "reference/safetensors_header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "reference/error.h"
#include "reference/tensor.h"

namespace kvconform {

std::string quoted_name(std::string_view name) {
  constexpr std::size_t longest = 200;
  std::string text = "\"";
  for (char c : name.substr(0, longest)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      text += c;
  }
  return text + (name.size() > longest ? "…\"" : "\"");
}

namespace {

const char* const rewrite = "write the file again with a current safetensors library";

// Bits of one number, by the names of the format description; 0: unknown.
int bits_of_dtype(const std::string& dtype) {
  static const std::map<std::string, int> bits = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},      {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"I16", 16},
      {"U16", 16},    {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
      {"F32", 32},    {"I64", 64}, {"U64", 64},    {"F64", 64},    {"C64", 64}};
  const auto found = bits.find(dtype);
  return found == bits.end() ? 0 : found->second;
}

class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(const std::string& origin, SafetensorsHeader& header)
      : origin_(origin), header_(header) {}

  bool start_object(std::size_t) override {
    switch (where_) {
      case Where::outside:
        where_ = Where::header;
        return true;
      case Where::header:
        where_ = key_ == "__metadata__" ? Where::metadata : Where::entry;
        entry_ = HeaderEntry{};
        entry_.name = key_;
        fields_.clear();
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& text) override {
    if (where_ == Where::header) {
      if (!names_.insert(text).second)
        throw Error("KV1208",
                    fmt::format("{}: the header names {} twice", origin_, quoted_name(text)),
                    "keep one of the two; " + std::string(rewrite));
      key_ = text;
      return true;
    }
    if (!fields_.insert(text).second)
      throw Error(
          "KV1208",
          fmt::format("{}: {} gives {} twice", origin_, quoted_name(key_), quoted_name(text)),
          "keep one of the two; " + std::string(rewrite));
    field_ = text;
    if (where_ == Where::entry && field_ != "dtype" && field_ != "shape" &&
        field_ != "data_offsets")
      throw Error("KV1209",
                  fmt::format("{}: {} has an unknown field {}", origin_, quoted_name(key_),
                              quoted_name(text)),
                  "only dtype, shape and data_offsets belong there");
    return true;
  }

  bool end_object() override {
    if (where_ == Where::entry) finish_entry();
    where_ = where_ == Where::header ? Where::outside : Where::header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::entry || field_ == "dtype") return unexpected("a list");
    where_ = Where::list;
    list_.clear();
    return true;
  }

  bool end_array() override {
    where_ = Where::entry;
    if (field_ == "shape") {
      entry_.shape.assign(list_.begin(), list_.end());
      return true;
    }
    if (list_.size() != 2 || list_[0] > list_[1])
      throw Error("KV1212",
                  fmt::format("{}: data_offsets of {} are {}", origin_, quoted_name(key_),
                              shape_text({list_.begin(), list_.end()})),
                  "they must be two ascending byte positions; " + std::string(rewrite));
    entry_.begin = list_[0];
    entry_.end = list_[1];
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (where_ != Where::list) return unexpected(fmt::format("the number {}", value));
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return bad_number(std::to_string(value));
    list_.push_back(value);
    return true;
  }
  bool number_integer(std::int64_t value) override { return bad_number(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return bad_number(text); }

  bool string(std::string& text) override {
    if (where_ == Where::metadata) {
      header_.metadata[field_] = text;
      return true;
    }
    if (where_ != Where::entry || field_ != "dtype")
      return unexpected("the string " + quoted_name(text));
    entry_.dtype = text;
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& problem) override {
    throw Error("KV1206",
                fmt::format("{}: the header is not valid JSON at byte {}: {}", origin_, position,
                            std::string(problem.what()).substr(0, 300)),
                "the file is damaged or no safetensors file; download or write it again");
  }

 private:
  enum class Where { outside, header, metadata, entry, list };

  bool unexpected(const std::string& value) const {
    if (where_ == Where::outside)
      throw Error("KV1207", fmt::format("{}: the header is {}, not an object", origin_, value),
                  rewrite);
    if (where_ == Where::metadata || (where_ == Where::header && key_ == "__metadata__"))
      throw Error("KV1218", fmt::format("{}: __metadata__ holds {}", origin_, value),
                  "it may hold strings only; " + std::string(rewrite));
    const std::string place = where_ == Where::header ? "the entry" : field_;
    throw Error(
        "KV1209", fmt::format("{}: {} of {} holds {}", origin_, place, quoted_name(key_), value),
        "an entry is {\"dtype\": string, \"shape\": [integers], \"data_offsets\": [begin, end]}");
  }

  // Negative, fractional, or beyond 63 bits.
  bool bad_number(const std::string& text) const {
    if (where_ != Where::list) return unexpected("the number " + text);
    throw Error(field_ == "shape" ? "KV1211" : "KV1212",
                fmt::format("{}: {} of {} contains {}", origin_, field_, quoted_name(key_), text),
                "only integers from 0 to 2^63 - 1 can stand there; " + std::string(rewrite));
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field))
        throw Error("KV1209", fmt::format("{}: {} has no {}", origin_, quoted_name(key_), field),
                    rewrite);
    const int bits = bits_of_dtype(entry_.dtype);
    if (bits == 0)
      throw Error("KV1210",
                  fmt::format("{}: {} has the unknown dtype {}", origin_, quoted_name(key_),
                              quoted_name(entry_.dtype)),
                  "convert the tensor to F32, F16 or BF16");
    entry_.bytes = bytes_needed(bits);
    header_.entries.push_back(std::move(entry_));
  }

  std::uint64_t bytes_needed(int bits) const {
    std::int64_t count = 1, total = 0;
    bool overflow = false, empty = false;
    for (std::int64_t length : entry_.shape) {
      empty = empty || length == 0;
      overflow = __builtin_mul_overflow(count, length, &count) || overflow;
    }
    // An axis of 0 after an overflow does not help: TensorView::count() would still overflow on its
    // way.
    if (overflow || __builtin_mul_overflow(count, std::int64_t{bits}, &total))
      throw Error("KV1211",
                  fmt::format("{}: shape {} of {} is larger than any file", origin_,
                              shape_text(entry_.shape), quoted_name(key_)),
                  rewrite);
    if (total % 8 != 0)
      throw Error("KV1211",
                  fmt::format("{}: shape {} of {} does not fill whole bytes of {}", origin_,
                              shape_text(entry_.shape), quoted_name(key_), entry_.dtype),
                  rewrite);
    return empty ? 0 : static_cast<std::uint64_t>(total / 8);
  }

  const std::string& origin_;
  SafetensorsHeader& header_;
  Where where_ = Where::outside;
  std::string key_, field_;
  std::set<std::string> names_, fields_;
  HeaderEntry entry_;
  std::vector<std::uint64_t> list_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& origin) {
  // The parser takes NUL for the end of input and skips a byte order mark; the format allows
  // neither.
  if (json.find('\0') != std::string_view::npos)
    throw Error("KV1206", origin + ": the header contains a zero byte",
                "the file is damaged; download or write it again");
  if (json.empty() || json.front() != '{')
    throw Error("KV1207", origin + ": the header does not begin with {",
                "the file is damaged or no safetensors file; download or write it again");
  SafetensorsHeader header;
  HeaderHandler handler(origin, header);
  nlohmann::json::sax_parse(json, &handler);
  return header;
}

}  // namespace kvconform
