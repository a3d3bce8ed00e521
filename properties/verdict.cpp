// The words for verdicts and differences, as cli.md spells them.
#include "properties/verdict.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kvconform {

const char* to_string(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::conforms:
      return "conforms";
    case VerdictKind::differs:
      return "differs";
    case VerdictKind::refused:
      return "refused";
    case VerdictKind::broken:
      return "broken";
    case VerdictKind::flaky:
      return "flaky";
    case VerdictKind::ill_conditioned:
      return "ill-conditioned";
    case VerdictKind::not_applicable:
      return "not-applicable";
    case VerdictKind::known:
      return "known";
    case VerdictKind::unexpectedly_conforms:
      return "unexpectedly-conforms";
    case VerdictKind::nothing_compared:
      return "nothing compared";
  }
  return "?";
}

std::string in_words(const Verdict& verdict) {
  return verdict.request.empty() ? verdict.message : verdict.request + ": " + verdict.message;
}

nlohmann::json to_json(const Difference& difference) {
  nlohmann::json value = nlohmann::json::object();
  const auto number = [&](const char* name, int index) {
    if (index >= 0) value[name] = index;
  };
  number("layer", difference.layer);
  if (!difference.part.empty()) value["part"] = difference.part;
  number("row", difference.row);
  number("token", difference.token);
  number("dimension", difference.dimension);
  number("head", difference.head);
  number("call", difference.call);
  // JSON has no NaN and no infinity.
  if (std::isfinite(difference.expected)) value["expected"] = difference.expected;
  if (std::isfinite(difference.seen)) value["seen"] = difference.seen;
  return value;
}

Difference difference_from_json(const nlohmann::json& value) {
  const auto number = [&](const char* name) { return value.value(name, -1); };
  const auto real = [&](const char* name) { return value.value(name, std::nan("")); };
  Difference difference;
  difference.layer = number("layer");
  difference.part = value.value("part", "");
  difference.row = number("row");
  difference.token = number("token");
  difference.dimension = number("dimension");
  difference.head = number("head");
  difference.call = number("call");
  difference.expected = real("expected");
  difference.seen = real("seen");
  return difference;
}

}  // namespace kvconform
