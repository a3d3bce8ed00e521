// Reading the ledger, strictly: an entry that is silently read as another one hides a failure.
#include "properties/known_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "properties/case_judge.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "kvconform-known-failures-1";
constexpr int kMostLayers = 1 << 16;

[[noreturn]] void malformed(const std::string& where, const std::string& what) {
  throw Error("KV2304", fmt::format("{}: {}", where, what),
              "write the ledger as properties/README.md, \"Known failures\", shows");
}

void only_fields(const json& object, std::initializer_list<const char*> known,
                 const std::string& where) {
  if (!object.is_object()) malformed(where, "an object is needed here");
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      malformed(where, fmt::format("\"{}\" is not a field of the ledger", name));
  }
}

std::string text_of(const json& object, const char* name, const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end()) malformed(where, fmt::format("\"{}\" is missing", name));
  if (!found->is_string() || found->get<std::string>().empty())
    malformed(where, fmt::format("\"{}\" must be a text that is not empty", name));
  return *found;
}

bool is_stored_check(const std::string& property) {
  return std::find(std::begin(kStoredChecks), std::end(kStoredChecks), property) !=
         std::end(kStoredChecks);
}

/// Oracle data are about the reference, goldens about the CUDA engine too.
bool is_about(const std::string& stored_check, const std::string& subject) {
  return subject == "reference" || (stored_check == "golden" && subject.rfind("cuda", 0) == 0);
}

void read_stored_place(const json& place, const std::string& where, KnownFailure& entry) {
  only_fields(place, {"case"}, where);
  entry.stored_case = text_of(place, "case", where);
}

void read_place(const json& place, const std::string& where, KnownFailure& entry) {
  only_fields(place, {"layer", "part"}, where);
  if (place.empty()) malformed(where, "give a layer, a part or both, or leave \"where\" out");
  if (place.contains("part")) entry.part = text_of(place, "part", where);
  if (!place.contains("layer")) return;
  const json& layer = place["layer"];
  if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() > kMostLayers)
    malformed(where, fmt::format("{} is no layer", layer.dump()));
  entry.layer = layer;
}

bool is_same_failure(const KnownFailure& a, const KnownFailure& b) {
  return a.property == b.property && a.subject == b.subject && a.verdict == b.verdict &&
         a.layer == b.layer && a.part == b.part && a.stored_case == b.stored_case;
}

json parse(const std::string& text, const std::string& origin) {
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    malformed(origin, fmt::format("not JSON ({})", e.what()));
  }
}

}  // namespace

KnownFailure known_failure_from_json(const json& value, const std::string& where) {
  only_fields(value, {"property", "subject", "where", "verdict", "reason", "link"}, where);
  KnownFailure entry;
  entry.property = text_of(value, "property", where);
  const bool stored = is_stored_check(entry.property);
  if (!stored) find_property(entry.property);  // throws where there is none
  entry.subject = text_of(value, "subject", where);
  if (stored && !is_about(entry.property, entry.subject))
    malformed(where,
              fmt::format("{} does not verify the subject {}", entry.property, entry.subject));
  entry.reason = text_of(value, "reason", where);
  entry.link = text_of(value, "link", where);
  if (value.contains("where"))
    (stored ? read_stored_place : read_place)(value["where"], where + ".where", entry);
  if (value.contains("verdict")) {
    const std::string word = text_of(value, "verdict", where);
    if (word != "differs" && word != "broken")
      malformed(where, fmt::format("the verdict \"{}\" is neither differs nor broken", word));
    if (word == "broken") entry.verdict = VerdictKind::broken;
  }
  if (entry.verdict == VerdictKind::broken && entry.has_place())
    malformed(where, "a subject that breaks leaves no place: \"where\" cannot be given");
  return entry;
}

std::vector<KnownFailure> parse_known_failures(const std::string& text, const std::string& origin) {
  const json value = parse(text, origin);
  only_fields(value, {"format", "failures"}, origin);
  const std::string format = text_of(value, "format", origin);
  if (format != kFormat)
    malformed(origin, fmt::format("the format is \"{}\", not \"{}\"", format, kFormat));
  if (!value.contains("failures") || !value["failures"].is_array())
    malformed(origin, "\"failures\" must be a list");
  std::vector<KnownFailure> ledger;
  for (const json& item : value["failures"]) {
    const std::string where = fmt::format("{}: failures[{}]", origin, ledger.size());
    const KnownFailure entry = known_failure_from_json(item, where);
    for (std::size_t i = 0; i < ledger.size(); ++i) {
      if (is_same_failure(ledger[i], entry))
        throw Error("KV2305", fmt::format("{} is about the same failure as failures[{}]", where, i),
                    "keep one of the two, or tell them apart by \"where\"");
    }
    ledger.push_back(entry);
  }
  return ledger;
}

std::vector<KnownFailure> read_known_failures(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text) malformed(file.string(), "cannot be read");
  return parse_known_failures(text.str(), file.string());
}

json to_json(const KnownFailure& entry) {
  json value = {{"property", entry.property},
                {"subject", entry.subject},
                {"verdict", to_string(entry.verdict)},
                {"reason", entry.reason},
                {"link", entry.link}};
  if (entry.layer >= 0) value["where"]["layer"] = entry.layer;
  if (!entry.part.empty()) value["where"]["part"] = entry.part;
  if (!entry.stored_case.empty()) value["where"]["case"] = entry.stored_case;
  return value;
}

std::vector<ListedFailure> listed_for(const std::vector<KnownFailure>& ledger,
                                      const std::string& property, const std::string& subject) {
  std::vector<ListedFailure> listed;
  for (const KnownFailure& entry : ledger) {
    if (entry.property == property && entry.subject == subject) listed.push_back({entry, 0});
  }
  return listed;
}

bool asks_for_place(const std::vector<ListedFailure>& listed) {
  return std::any_of(listed.begin(), listed.end(),
                     [](const ListedFailure& l) { return l.entry.has_place(); });
}

int find_listed(const std::vector<ListedFailure>& listed, const Verdict& verdict) {
  const auto fits = [&](const KnownFailure& entry) {
    if (entry.verdict != verdict.kind) return false;
    if (!entry.has_place()) return true;
    if (!verdict.first_difference) return false;
    const Difference& at = *verdict.first_difference;
    return (entry.layer < 0 || entry.layer == at.layer) &&
           (entry.part.empty() || entry.part == at.part);
  };
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (fits(listed[i].entry)) return static_cast<int>(i);
  }
  return -1;
}

int find_listed(const std::vector<ListedFailure>& listed, VerdictKind kind,
                const std::string& stored_case) {
  const auto found = std::find_if(listed.begin(), listed.end(), [&](const ListedFailure& l) {
    return l.entry.verdict == kind &&
           (l.entry.stored_case.empty() || l.entry.stored_case == stored_case);
  });
  return found == listed.end() ? -1 : static_cast<int>(found - listed.begin());
}

}  // namespace kvconform
