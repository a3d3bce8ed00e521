// Reading and writing of case files, format "kvconform-case-1". Strict: an unknown field, a number
// out of range or a session that was never opened is an error with the place named, since a case
// that is silently read as another one proves nothing.
#include "properties/case.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "kvconform-case-1";
constexpr std::uintmax_t kLargestFile = 64u << 20;
constexpr int kDeepestNesting = 24;
constexpr int kLargestNumber = 1 << 24;  // of positions, rows and token ids: well inside int

constexpr std::array kKinds = {Call::Kind::score,  Call::Kind::open,    Call::Kind::extend,
                               Call::Kind::rewind, Call::Kind::fork,    Call::Kind::reorder,
                               Call::Kind::save,   Call::Kind::restore, Call::Kind::close};

[[noreturn]] void malformed(const std::string& where, const std::string& what) {
  throw Error("KV2002", fmt::format("{}: {}", where, what),
              "use a case file as kvconform writes them (format " + std::string(kFormat) + ")");
}

const json& field(const json& object, const char* name, const std::string& where) {
  if (!object.is_object()) malformed(where, "an object is needed here");
  const auto found = object.find(name);
  if (found == object.end()) malformed(where, fmt::format("\"{}\" is missing", name));
  return *found;
}

void only_fields(const json& object, std::initializer_list<const char*> known,
                 const std::string& where) {
  if (!object.is_object()) malformed(where, "an object is needed here");
  for (const auto& [name, value] : object.items()) {
    bool found = false;
    for (const char* k : known) found |= name == k;
    if (!found) malformed(where, fmt::format("\"{}\" is not a field of this format", name));
  }
}

int small_number(const json& value, const std::string& where) {
  if (!value.is_number_integer()) malformed(where, "a whole number is needed, not " + value.dump());
  // Unsigned first: a number past 2^63 would wrap when read as a signed one.
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > kLargestNumber;
  const std::int64_t number = huge ? 0 : value.get<std::int64_t>();
  if (!huge && number >= -kLargestNumber && number <= kLargestNumber) {
    return static_cast<int>(number);
  }
  malformed(where, fmt::format("{} is outside ±{}", value.dump(), kLargestNumber));
}

int count(const json& object, const char* name, int fallback, int least, const std::string& where) {
  if (!object.contains(name)) return fallback;
  const std::string place = where + "." + name;
  const int value = small_number(object[name], place);
  if (value < least) malformed(place, fmt::format("{} is below {}", value, least));
  return value;
}

std::uint64_t large_number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned()) malformed(where, "a whole number from 0 to 2^64 − 1 is needed");
  return value.get<std::uint64_t>();
}

std::string text(const json& value, const std::string& where) {
  if (!value.is_string()) malformed(where, "a string is needed");
  return value.get<std::string>();
}

std::vector<int> numbers(const json& value, const std::string& where) {
  if (!value.is_array()) malformed(where, "a list of whole numbers is needed");
  std::vector<int> list;
  for (const json& entry : value) list.push_back(small_number(entry, where));
  return list;
}

TokenRows token_rows(const json& value, const std::string& where) {
  if (!value.is_array()) malformed(where, "a list of token lists is needed");
  TokenRows rows;
  for (const json& row : value) rows.push_back(numbers(row, where));
  return rows;
}

const char* to_string(DeadTensors dead) {
  return dead == DeadTensors::absent ? "absent" : dead == DeadTensors::random ? "random" : "nan";
}

DeadTensors dead_tensors(const std::string& name, const std::string& where) {
  for (DeadTensors dead : {DeadTensors::absent, DeadTensors::random, DeadTensors::nan}) {
    if (name == to_string(dead)) return dead;
  }
  malformed(where, fmt::format("\"{}\" is none of absent, random, nan", name));
}

Dtype weights_dtype(const std::string& name, const std::string& where) {
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    if (name == to_string(dtype)) return dtype;
  }
  malformed(where, fmt::format("\"{}\" is none of F32, F16, BF16", name));
}

WeightsRecipe weights_from_json(const json& value, const std::string& where) {
  only_fields(value, {"seed", "dtype", "dead_tensors"}, where);
  WeightsRecipe recipe;
  recipe.seed = large_number(field(value, "seed", where), where + ".seed");
  recipe.dtype = weights_dtype(text(field(value, "dtype", where), where), where + ".dtype");
  recipe.dead_tensors = dead_tensors(text(field(value, "dead_tensors", where), where), where);
  return recipe;
}

ModelSpec model_from_json(const json& value, const std::string& where) {
  only_fields(value, {"config", "weights", "folder"}, where);
  ModelSpec spec;
  if (value.contains("folder")) {
    if (value.size() != 1) malformed(where, "a folder has its own config and weights");
    spec.folder = text(value["folder"], where + ".folder");
    return spec;
  }
  const json& config = field(value, "config", where);
  if (!config.is_object()) malformed(where + ".config", "an object is needed here");
  spec.config_text = config.dump(-1, ' ', false, json::error_handler_t::replace);
  spec.weights = weights_from_json(field(value, "weights", where), where + ".weights");
  return spec;
}

json model_to_json(const ModelSpec& spec) {
  if (!spec.folder.empty()) return {{"folder", spec.folder.string()}};
  return {{"config", json::parse(spec.config_text)},
          {"weights",
           {{"seed", spec.weights.seed},
            {"dtype", to_string(spec.weights.dtype)},
            {"dead_tensors", to_string(spec.weights.dead_tensors)}}}};
}

Call::Kind call_kind(const std::string& name, const std::string& where) {
  for (Call::Kind kind : kKinds) {
    if (name == to_string(kind)) return kind;
  }
  malformed(where, fmt::format("\"{}\" is no call", name));
}

Call call_from_json(const json& value, const std::string& where) {
  only_fields(
      value, {"call", "session", "from", "tokens", "batch", "capacity", "start", "lengths", "rows"},
      where);
  Call call;
  call.kind = call_kind(text(field(value, "call", where), where + ".call"), where + ".call");
  call.session = count(value, "session", 0, 0, where);
  call.from = count(value, "from", 0, 0, where);
  call.batch = count(value, "batch", 1, 1, where);
  call.capacity = count(value, "capacity", 0, 0, where);
  call.start = count(value, "start", 0, 0, where);
  if (call.kind == Call::Kind::score || call.kind == Call::Kind::extend) {
    call.tokens = token_rows(field(value, "tokens", where), where + ".tokens");
  }
  if (call.kind == Call::Kind::rewind) {
    call.numbers = numbers(field(value, "lengths", where), where + ".lengths");
  }
  if (call.kind == Call::Kind::reorder) {
    call.numbers = numbers(field(value, "rows", where), where + ".rows");
  }
  return call;
}

json call_to_json(const Call& call) {
  json value = {{"call", to_string(call.kind)}};
  if (call.kind != Call::Kind::score) value["session"] = call.session;
  switch (call.kind) {
    case Call::Kind::score:
    case Call::Kind::extend:
      value["tokens"] = call.tokens;
      break;
    case Call::Kind::open:
      value["batch"] = call.batch;
      value["capacity"] = call.capacity;
      if (call.start != 0) value["start"] = call.start;
      break;
    case Call::Kind::rewind:
      value["lengths"] = call.numbers;
      break;
    case Call::Kind::reorder:
      value["rows"] = call.numbers;
      break;
    case Call::Kind::fork:
    case Call::Kind::restore:
      value["from"] = call.from;
      break;
    case Call::Kind::save:
    case Call::Kind::close:
      break;
  }
  return value;
}

/// Sessions exist before they are used and are made once.
void check_sessions(const std::vector<Call>& calls, const std::string& origin) {
  std::set<int> open, saved;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const std::string where = fmt::format("{}: calls[{}]", origin, i);
    const bool makes = call.kind == Call::Kind::open || call.kind == Call::Kind::fork ||
                       call.kind == Call::Kind::restore;
    if (call.kind == Call::Kind::fork && !open.count(call.from)) {
      malformed(where, fmt::format("session {} is not open", call.from));
    }
    if (call.kind == Call::Kind::restore && !saved.count(call.from)) {
      malformed(where, fmt::format("session {} was never saved", call.from));
    }
    if (makes) {
      if (!open.insert(call.session).second) {
        malformed(where, fmt::format("session {} is open already", call.session));
      }
      continue;
    }
    if (call.kind == Call::Kind::score) continue;
    if (!open.count(call.session)) {
      malformed(where, fmt::format("session {} is not open", call.session));
    }
    if (call.kind == Call::Kind::save) saved.insert(call.session);
    if (call.kind == Call::Kind::close) open.erase(call.session);
  }
}

json parse_json(const std::string& content, const std::string& origin) {
  // The depth is bounded before anything recursive (dump, parse_model_config) sees the value.
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepestNesting) malformed(origin, "nested too deeply to be a case");
    return true;
  };
  try {
    return json::parse(content, shallow);
  } catch (const json::exception& e) {
    throw Error("KV2001", fmt::format("{} is not JSON ({})", origin, e.what()),
                "give a file from failures/ of a report, or one that `kvconform shrink` wrote");
  }
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code code;
  const auto size = std::filesystem::file_size(file, code);
  std::ifstream in(file, std::ios::binary);
  if (code || !in) {
    throw Error("KV2003", fmt::format("cannot read the case file {}", file.string()),
                "check the path and its permissions");
  }
  if (size > kLargestFile) {
    throw Error("KV2003", fmt::format("{} has {} bytes, more than any case", file.string(), size),
                "give a case file");
  }
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

}  // namespace

const char* to_string(Call::Kind kind) {
  switch (kind) {
    case Call::Kind::score:
      return "score";
    case Call::Kind::open:
      return "open";
    case Call::Kind::extend:
      return "extend";
    case Call::Kind::rewind:
      return "rewind";
    case Call::Kind::fork:
      return "fork";
    case Call::Kind::reorder:
      return "reorder";
    case Call::Kind::save:
      return "save";
    case Call::Kind::restore:
      return "restore";
    case Call::Kind::close:
      return "close";
  }
  return "?";
}

json to_json(const Case& test_case) {
  json calls = json::array();
  for (const Call& call : test_case.calls) calls.push_back(call_to_json(call));
  json value = {{"format", kFormat},
                {"property", test_case.property},
                {"seed", test_case.seed},
                {"index", test_case.index},
                {"model", model_to_json(test_case.model)},
                {"calls", std::move(calls)}};
  if (!test_case.subject.empty()) value["subject"] = test_case.subject;
  if (!test_case.against.empty()) value["against"] = test_case.against;
  if (!test_case.comment.empty()) value["comment"] = test_case.comment;
  return value;
}

Case case_from_json(const json& value, const std::string& origin) {
  const std::string format = text(field(value, "format", origin), origin + ": format");
  if (format != kFormat) {
    throw Error("KV2004", fmt::format("{} has the format \"{}\"", origin, format),
                fmt::format("this version reads \"{}\"", kFormat));
  }
  only_fields(
      value,
      {"format", "property", "subject", "against", "comment", "seed", "index", "model", "calls"},
      origin);
  Case test_case;
  test_case.property = text(field(value, "property", origin), origin + ": property");
  if (value.contains("subject")) test_case.subject = text(value["subject"], origin + ": subject");
  if (value.contains("against")) test_case.against = text(value["against"], origin + ": against");
  if (value.contains("comment")) test_case.comment = text(value["comment"], origin + ": comment");
  test_case.seed = large_number(field(value, "seed", origin), origin + ": seed");
  test_case.index = large_number(field(value, "index", origin), origin + ": index");
  test_case.model = model_from_json(field(value, "model", origin), origin + ": model");
  const json& calls = field(value, "calls", origin);
  if (!calls.is_array()) malformed(origin + ": calls", "a list is needed");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    test_case.calls.push_back(call_from_json(calls[i], fmt::format("{}: calls[{}]", origin, i)));
  }
  check_sessions(test_case.calls, origin);
  return test_case;
}

Case parse_case(const std::string& content, const std::string& origin) {
  return case_from_json(parse_json(content, origin), origin);
}

void write_case(const Case& test_case, const std::filesystem::path& file) {
  std::filesystem::path temporary = file;
  temporary += ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << to_json(test_case).dump() << '\n';
    out.flush();
    if (!out) {
      throw HarnessError("KV2010", fmt::format("cannot write the case file {}", file.string()),
                         "check that the disk has room and the folder is writable");
    }
  }
  std::error_code code;
  std::filesystem::rename(temporary, file, code);  // whole or not at all
  if (code) {
    throw HarnessError("KV2010", fmt::format("cannot write {}: {}", file.string(), code.message()),
                       "check that the folder is writable");
  }
}

Case read_case(const std::filesystem::path& file) {
  return parse_case(read_text(file), file.string());
}

}  // namespace kvconform
