// Types and ranges of configuration fields, see config_fields.h. Nothing here recurses into a
// value, so that a deeply nested one costs no stack.
#include "reference/config_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

[[noreturn]] void wrong_type(const std::string& name, const json& value, const char* wanted,
                             const char* remedy) {
  throw Error("KV1006", fmt::format("{} is {}, which is not {}", name, shown(value), wanted),
              remedy);
}

[[noreturn]] void out_of_range(const std::string& name, const std::string& value,
                               const std::string& range) {
  throw Error("KV1007", fmt::format("{} is {}", name, value), "give a value in " + range);
}

std::string described(IntegerRange range) {
  return fmt::format("[{}, {}]", range.low, range.high);
}

std::string described(NumberRange range) {
  return fmt::format("{}{}, {}{}", range.low_open ? '(' : '[', range.low, range.high,
                     range.high_open ? ')' : ']');
}

// Integers beyond 64 bits arrive as floating point: they are too large rather than of another type.
bool is_huge_integer(const json& value) {
  return value.is_number_float() && std::fabs(value.get<double>()) >= 9007199254740992.0;
}

std::string entry_name(const std::string& list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

}  // namespace

std::string shown(const json& value) {
  if (value.is_object()) return "an object of " + counted(value.size(), "field");
  if (value.is_array()) return "a list of " + counted(value.size(), "entry");
  if (value.is_binary()) return "binary data";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr std::size_t longest = 60;
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

std::string shown_name(const std::string& name) {
  const std::string quoted = shown(json(name));
  return quoted.substr(1, quoted.size() - (quoted.back() == '"' ? 2 : 1));
}

int checked_integer(const json& value, const std::string& name, IntegerRange range) {
  if (is_huge_integer(value)) out_of_range(name, shown(value), described(range));
  if (!value.is_number_integer()) {
    wrong_type(name, value, "an integer", "write a whole number, without quotes or decimal point");
  }
  // Unsigned values above 2^63 would turn negative in int64_t.
  const bool too_large = value.is_number_unsigned() &&
                         value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const auto number = too_large ? INT64_MAX : value.get<std::int64_t>();
  if (number < range.low || number > range.high) {
    out_of_range(name, shown(value), described(range));
  }
  return static_cast<int>(number);
}

double checked_number(const json& value, const std::string& name, NumberRange range) {
  if (!value.is_number()) wrong_type(name, value, "a number", "write a number without quotes");
  const double number = value.get<double>();
  const bool above_low = range.low_open ? number > range.low : number >= range.low;
  const bool below_high = range.high_open ? number < range.high : number <= range.high;
  // NaN fails both comparisons and is refused like any other value out of range.
  if (!above_low || !below_high) out_of_range(name, shown(value), described(range));
  return number;
}

std::string checked_text(const json& value, const std::string& name) {
  if (!value.is_string()) wrong_type(name, value, "a string", "write a word in quotes");
  return value.get<std::string>();
}

Fields::Fields(const json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (object.is_object()) return;
  const std::string what =
      prefix_.empty() ? "the configuration" : prefix_.substr(0, prefix_.size() - 1);
  throw Error("KV1003", fmt::format("{} is {}, not a JSON object", what, shown(object)),
              "give an object of named fields: {\"model_type\": ..., ...}");
}

bool Fields::has(const std::string& name) const {
  return object_.contains(name);
}

const json* Fields::find(const std::string& name) {
  const auto found = object_.find(name);
  if (found == object_.end()) return nullptr;
  read_.insert(name);
  return &*found;
}

bool Fields::has_value(const std::string& name) {
  const json* value = find(name);
  return value != nullptr && !value->is_null();
}

int Fields::integer(const std::string& name, int fallback, IntegerRange range) {
  const json* value = find(name);
  return value == nullptr ? fallback : checked_integer(*value, full_name(name), range);
}

double Fields::number(const std::string& name, double fallback, NumberRange range) {
  const json* value = find(name);
  return value == nullptr ? fallback : checked_number(*value, full_name(name), range);
}

bool Fields::boolean(const std::string& name, bool fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) wrong_type(full_name(name), *value, "a boolean", "write true or false");
  return value->get<bool>();
}

std::string Fields::text(const std::string& name, const std::string& fallback) {
  const json* value = find(name);
  return value == nullptr ? fallback : checked_text(*value, full_name(name));
}

const json& Fields::list(const std::string& name, int length) {
  const json* value = find(name);
  const std::string full = full_name(name);
  if (value == nullptr || !value->is_array()) {
    wrong_type(full, value == nullptr ? json() : *value, "a list",
               "give a list with one entry a layer");
  }
  if (value->size() != static_cast<std::size_t>(length)) {
    throw Error("KV1008",
                fmt::format("{} has {}, num_hidden_layers is {}", full,
                            counted(value->size(), "entry"), length),
                "give one entry a layer");
  }
  return *value;
}

std::vector<int> Fields::integers(const std::string& name, int length, IntegerRange range) {
  std::vector<int> result;
  for (const json& entry : list(name, length)) {
    result.push_back(checked_integer(entry, entry_name(full_name(name), result.size()), range));
  }
  return result;
}

std::vector<double> Fields::numbers(const std::string& name, int length, NumberRange range) {
  std::vector<double> result;
  for (const json& entry : list(name, length)) {
    result.push_back(checked_number(entry, entry_name(full_name(name), result.size()), range));
  }
  return result;
}

std::vector<std::string> Fields::texts(const std::string& name, int length) {
  std::vector<std::string> result;
  for (const json& entry : list(name, length)) {
    result.push_back(checked_text(entry, entry_name(full_name(name), result.size())));
  }
  return result;
}

void Fields::ignore(const std::string& name, const std::string& reason) {
  if (find(name) != nullptr) note(name, reason);
}

void Fields::note(const std::string& name, const std::string& reason) {
  ignored_.push_back({full_name(name), reason});
}

void Fields::refuse_unknown(const std::string& remedy) const {
  for (const auto& [name, value] : object_.items()) {
    if (read_.count(name) != 0) continue;
    throw Error("KV1005",
                fmt::format("unknown field {} ({}): it may change what the model computes",
                            full_name(shown_name(name)), shown(value)),
                remedy.empty()
                    ? "remove the field if it has no effect on text inference; otherwise "
                      "this model is not supported"
                    : remedy);
  }
}

std::vector<std::string> Fields::names() const {
  std::vector<std::string> result;
  for (const auto& entry : object_.items()) result.push_back(entry.key());
  return result;
}

}  // namespace kvconform
