// A checked reader for one JSON object of a configuration. Each field is asked for by name, with
// its type and range; what nobody asked for is refused in the end, because a field that is not
// understood may change the maths. Knows JSON and ranges, nothing about models.
//
//   Fields fields(object, "text_config.");
//   int layers = fields.integer("num_hidden_layers", 35, {1, 10000});
//   fields.ignore("dtype", "the checkpoint says what it stores");
//   fields.refuse_unknown();
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "reference/model_config.h"

namespace kvconform {

struct IntegerRange {
  std::int64_t low, high;  ///< both included
};

/// Finite numbers from low to high; the bounds belong to the range only where they are closed.
struct NumberRange {
  double low, high;
  bool low_open = false, high_open = false;
};

class Fields {
 public:
  /// `prefix` stands before each name in errors and notes, e.g. "text_config.".
  /// The object must outlive the reader. Throws KV1003 if it is not an object.
  Fields(const nlohmann::json& object, std::string prefix);

  bool has(const std::string& name) const;  ///< present, null included
  bool was_read(const std::string& name) const { return read_.count(name) != 0; }
  bool has_value(const std::string& name);  ///< present and not null; marks a null as read
  const nlohmann::json* find(const std::string& name);  ///< marks it as read; nullptr if absent

  // A missing field gives the fallback; null, another type (KV1006) and a value out of range
  // (KV1007) are refused.
  int integer(const std::string& name, int fallback, IntegerRange range);
  double number(const std::string& name, double fallback, NumberRange range);
  bool boolean(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback);

  // Lists with exactly `length` entries (KV1008); the field must be there and not null.
  std::vector<int> integers(const std::string& name, int length, IntegerRange range);
  std::vector<double> numbers(const std::string& name, int length, NumberRange range);
  std::vector<std::string> texts(const std::string& name, int length);

  void ignore(const std::string& name, const std::string& reason);  ///< notes it, if present
  void note(const std::string& name, const std::string& reason);    ///< notes it in any case
  const std::vector<ModelConfig::Ignored>& ignored() const { return ignored_; }

  /// KV1005, naming the first field that nobody read.
  void refuse_unknown(const std::string& remedy = "") const;
  std::vector<std::string> names() const;
  std::string full_name(const std::string& name) const { return prefix_ + name; }

 private:
  const nlohmann::json& list(const std::string& name, int length);

  const nlohmann::json& object_;
  std::string prefix_;
  std::set<std::string> read_;
  std::vector<ModelConfig::Ignored> ignored_;
};

// The same checks for a value that already has a name.
int checked_integer(const nlohmann::json& value, const std::string& name, IntegerRange range);
double checked_number(const nlohmann::json& value, const std::string& name, NumberRange range);
std::string checked_text(const nlohmann::json& value, const std::string& name);

/// A value as an error shows it: scalars as JSON (shortened), lists and objects by their size only.
std::string shown(const nlohmann::json& value);
/// A field name from a file as an error shows it: escaped and shortened, without quotes.
std::string shown_name(const std::string& name);

}  // namespace kvconform
