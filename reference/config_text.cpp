// The text of a config.json as a JSON value. Stricter than JSON itself: duplicate keys are refused
// (which of two head sizes did the author mean?), and so is nesting that no configuration needs,
// which keeps everything that walks the value later within a small stack.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "reference/error.h"
#include "reference/model_config.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr std::size_t largest_text = std::size_t{16} << 20;
constexpr int deepest = 32;  // published multimodal configurations need 4

class KeyWatch {
 public:
  explicit KeyWatch(const std::string& origin) : origin_(origin) {}

  // The callback of json::parse; it keeps every value.
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        check_depth(depth);
        keys_.emplace_back();
        break;
      case json::parse_event_t::array_start:
        check_depth(depth);
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        check_new(parsed.get<std::string>());
        break;
      default:
        break;
    }
    return true;
  }

 private:
  void check_depth(int depth) const {
    if (depth < deepest) return;
    throw Error("KV1001", fmt::format("{} nests deeper than {} levels", origin_, deepest),
                "give the config.json of a model");
  }

  void check_new(const std::string& key) {
    if (keys_.back().insert(key).second) return;
    throw Error("KV1002",
                fmt::format("{} has the field \"{:.60}\" twice in one object", origin_, key),
                "keep one of the two");
  }

  const std::string& origin_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

json parse_config_text(const std::string& text, const std::string& origin) {
  if (text.size() > largest_text) {
    throw Error("KV1001",
                fmt::format("{} has {} bytes, a configuration has at most {}", origin, text.size(),
                            largest_text),
                "give the config.json of a model");
  }
  try {
    KeyWatch watch(origin);
    return json::parse(text, [&watch](int depth, json::parse_event_t event, json& parsed) {
      return watch(depth, event, parsed);
    });
  } catch (const json::exception& problem) {
    throw Error("KV1001", fmt::format("{} is not valid JSON: {}", origin, problem.what()),
                "correct the file at the place named above");
  }
}

}  // namespace kvconform
