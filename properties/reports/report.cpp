// Writing and reading the report folder.
#include "properties/reports/report.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "properties/books.h"
#include "properties/shrinking.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;
using Path = std::filesystem::path;

[[noreturn]] void not_writable(const Path& file, const std::string& why) {
  throw HarnessError("KV2210", fmt::format("cannot write {}{}", file.string(), why),
                     "check that the disk has room and the folder is writable");
}

/// Through a temporary file, so that a reader never meets half of one.
void replace_file(const Path& file, const std::string& content) {
  Path temporary = file;
  temporary += ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << content;
    out.flush();
    if (!out) not_writable(file, "");
  }
  std::error_code code;
  std::filesystem::rename(temporary, file, code);
  if (code) not_writable(file, ": " + code.message());
}

/// JSON has no infinity: a budget that bits cannot meet is written as null.
json number(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json counts_json(const VerdictCounts& counts) {
  json value = json::object();
  for (const auto& [kind, count] : counts) value[to_string(kind)] = count;
  return value;
}

VerdictKind verdict_kind(const std::string& word) {
  for (int i = 0; i <= static_cast<int>(VerdictKind::nothing_compared); ++i) {
    if (word == to_string(static_cast<VerdictKind>(i))) return static_cast<VerdictKind>(i);
  }
  throw Error("KV2202", fmt::format("\"{}\" is no verdict", word), "give a report of this version");
}

VerdictCounts counts_from(const json& value) {
  VerdictCounts counts;
  for (const auto& [word, count] : value.items()) counts[verdict_kind(word)] = count;
  return counts;
}

ListedFailure listed_from(json value, const std::string& where) {
  const std::int64_t matched = value.at("matched");
  value.erase("matched");
  return {known_failure_from_json(value, where), matched};
}

json listed_json(const ListedFailure& listed) {
  json value = to_json(listed.entry);
  value["matched"] = listed.matched;
  return value;
}

json besides_json(const OtherFailure& others) {
  json value = {{"verdict", to_string(others.verdict)},
                {"cases", others.cases},
                {"message", others.message},
                {"case", nullptr}};
  if (!others.file.empty()) value["case"] = "failures/" + others.file.filename().string();
  return value;
}

OtherFailure besides_from(const json& value, const Path& folder) {
  OtherFailure others{
      verdict_kind(value.at("verdict")), value.at("cases"), value.at("message"), {}};
  if (value.at("case").is_string()) others.file = folder / value.at("case").get<std::string>();
  return others;
}

json deviations_json(const DeviationMap& map) {
  json rows = json::array();
  for (const auto& row : map.deviation) {
    json values = json::array();
    for (double value : row) values.push_back(number(value));
    rows.push_back(std::move(values));
  }
  return {{"row", map.row},
          {"call", map.call},
          {"first_token", map.first_token},
          {"arrays", map.arrays},
          {"relative", std::move(rows)}};
}

DeviationMap deviations_from(const json& value) {
  DeviationMap map{value.at("row"),
                   value.at("call"),
                   value.at("first_token"),
                   value.at("arrays").get<std::vector<std::string>>(),
                   {}};
  for (const json& row : value.at("relative")) {
    auto& values = map.deviation.emplace_back();
    for (const json& item : row)
      values.push_back(item.is_null() ? std::nan("") : item.get<double>());
  }
  return map;
}

json coverage_json(const std::map<std::string, Coverage>& coverage) {
  json value = json::object();
  for (const auto& [name, entry] : coverage)
    value[name] = {{"met", entry.met}, {"required", entry.required}};
  return value;
}

std::map<std::string, Coverage> coverage_from(const json& value) {
  std::map<std::string, Coverage> coverage;
  for (const auto& [name, entry] : value.items())
    coverage[name] = {entry.at("met"), entry.at("required")};
  return coverage;
}

json subjects_json(const std::map<std::string, SubjectBooks>& subjects) {
  json value = json::object();
  for (const auto& [name, books] : subjects) {
    value[name] = {{"name", books.info.name},
                   {"version", books.info.version},
                   {"families", books.info.families},
                   {"dtype", books.info.dtype},
                   {"capabilities", books.info.capabilities},
                   {"margin", books.info.margin},
                   {"coverage", coverage_json(books.coverage)}};
  }
  return value;
}

std::map<std::string, SubjectBooks> subjects_from(const json& value) {
  std::map<std::string, SubjectBooks> subjects;
  for (const auto& [name, entry] : value.items()) {
    SubjectBooks& books = subjects[name];
    books.info.name = entry.at("name");
    books.info.version = entry.at("version");
    books.info.families = entry.at("families").get<std::set<std::string>>();
    books.info.dtype = entry.at("dtype");
    books.info.capabilities = entry.at("capabilities").get<std::set<std::string>>();
    books.info.margin = entry.at("margin");
    books.coverage = coverage_from(entry.at("coverage"));
  }
  return subjects;
}

PropertyResult result_from(const json& value, const Path& folder) {
  PropertyResult result;
  result.property = value.at("property");
  result.sentence = value.value("sentence", "");
  result.subject = value.at("subject");
  result.against = value.at("against");
  result.verdict = verdict_kind(value.at("verdict"));
  result.counts = counts_from(value.at("counts"));
  result.seed = value.at("seed");
  result.cases = value.at("cases");
  result.budget_used =
      value.at("budget_used").is_null() ? HUGE_VAL : value.at("budget_used").get<double>();
  result.seconds = value.at("seconds");
  result.message = value.value("message", "");
  result.whole = value.value("complete", true);
  result.against_used = value.value("against_used", false);
  if (value.contains("reasons")) {
    for (const json& item : value["reasons"])
      result.reasons.push_back({verdict_kind(item.at("verdict")), item.at("text"), item.at("cases"),
                                item.value("first", "")});
  }
  if (value.contains("besides")) result.besides = besides_from(value["besides"], folder);
  if (value.contains("kept")) result.kept = counts_from(value["kept"]);
  if (value.contains("known_failures")) {
    for (const json& item : value["known_failures"])
      result.listed.push_back(listed_from(item, result.property));
  }
  if (!value.contains("case") || !value["case"].is_string()) return result;
  Failure failure;
  failure.kept = value.value("from_kept_case", false);
  failure.file = folder / value["case"].get<std::string>();
  failure.smallest = read_case(failure.file);
  failure.found_at = value.value("found_at", std::uint64_t{0});
  failure.verdict.kind = result.verdict;
  failure.verdict.message = result.message;
  failure.verdict.budget_used = result.budget_used;
  if (value.at("cause").is_string()) failure.verdict.cause = value.at("cause");
  failure.verdict.departs = value.value("departs", "");
  failure.breaks_too = value.value("breaks_too", "");
  if (value.at("first_difference").is_object())
    failure.verdict.first_difference = difference_from_json(value.at("first_difference"));
  if (value.contains("deviations"))
    failure.verdict.deviations = deviations_from(value["deviations"]);
  result.failure = std::move(failure);
  return result;
}

json asked_json(const Asked& asked) {
  json known = json::array();
  for (const KnownFailure& entry : asked.known) known.push_back(to_json(entry));
  return {{"subjects", asked.subjects},        {"against", asked.against},
          {"properties", asked.properties},    {"models", asked.models},
          {"seconds", asked.seconds},          {"timeout", asked.timeout},
          {"known_failures", std::move(known)}};
}

Asked asked_from(const json& value) {
  Asked asked;
  asked.subjects = value.at("subjects").get<std::vector<std::string>>();
  asked.against = value.at("against");
  asked.properties = value.at("properties").get<std::vector<std::string>>();
  asked.models = value.at("models").get<std::vector<std::string>>();
  asked.seconds = value.at("seconds");
  asked.timeout = value.at("timeout");
  for (const json& entry : value.at("known_failures"))
    asked.known.push_back(known_failure_from_json(entry, "known_failures"));
  return asked;
}

RunSummary summary_from(const Path& folder) {
  std::ifstream file(folder / "summary.json");
  const json value = json::parse(file);
  RunSummary summary;
  if (value.at("commit").is_string()) summary.commit = value.at("commit");
  summary.seed = value.at("seed");
  summary.size = case_size(value.at("size")).value_or(CaseSize::standard);
  const std::string shard = value.at("shard");
  const std::size_t slash = shard.find('/');
  summary.shard = std::stoi(shard.substr(0, slash));
  summary.shards = std::stoi(shard.substr(slash + 1));
  summary.complete = value.at("complete");
  summary.interrupted = !summary.complete;
  summary.asked = asked_from(value.at("asked"));
  summary.seconds = value.at("seconds");
  summary.cases = value.at("cases");
  summary.cases_per_property = value.value("cases_per_property", std::int64_t{0});
  summary.counts = counts_from(value.at("counts"));
  summary.coverage_judged = value.value("coverage_judged", false);
  summary.coverage = coverage_from(value.at("coverage"));
  summary.subjects = subjects_from(value.at("subjects"));
  summary.distribution = value.at("distribution").get<Distribution>();
  summary.merged = value.value("merged", std::vector<std::string>{});
  const json& code = value.at("exit_code");
  if (!summary.complete && (code == 2 || code == 5)) summary.ended_with = code.get<int>();
  for (const auto& [name, entry] : value.at("environment").items()) {
    if (entry.is_string()) summary.environment[name] = entry;
  }
  std::ifstream lines(folder / "results.jsonl");
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) summary.results.push_back(result_from(json::parse(line), folder));
  }
  return summary;
}

/// What a run leaves that was killed before it wrote its first report.
bool holds_only_running(const Path& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().filename() != "running" || !entry.is_directory(code)) return false;
  }
  return !code;
}

}  // namespace

void open_report(const Path& folder, bool resume) {
  std::error_code code;
  const bool exists = std::filesystem::exists(folder, code);
  if (exists && !std::filesystem::is_directory(folder, code)) {
    throw Error("KV2201", fmt::format("{} is not a folder", folder.string()), "name a new folder");
  }
  const bool empty = !exists || std::filesystem::is_empty(folder, code);
  if (!empty && holds_only_running(folder)) {
    if (resume) return;  // nothing to go on with: it starts anew
    throw Error("KV2201",
                fmt::format("the report folder {} holds the cases of a run that was killed before "
                            "its first result",
                            folder.string()),
                "replay the files in running/ if you like; then give --resume, which starts anew "
                "there, or name a new folder");
  }
  if (!empty && !resume) {
    throw Error("KV2201", fmt::format("the report folder {} is not empty", folder.string()),
                "name a new or empty folder, or give --resume to go on with the run it holds");
  }
  if (!empty && !std::filesystem::exists(folder / "summary.json")) {
    throw Error("KV2202", fmt::format("{} holds no report to resume", folder.string()),
                "name the folder of an incomplete run");
  }
  std::filesystem::create_directories(folder, code);
  if (code) not_writable(folder, ": " + code.message());
}

RunSummary read_report(const Path& folder) {
  if (!std::filesystem::exists(folder / "summary.json")) {
    throw Error("KV2202", fmt::format("{} holds no report", folder.string()),
                "name a folder that `kvconform check --report` wrote");
  }
  try {
    return summary_from(folder);
  } catch (const json::exception& e) {
    throw Error("KV2202",
                fmt::format("the report {} cannot be read ({})", folder.string(), e.what()),
                "give a report of this version");
  } catch (const std::logic_error& e) {  // a shard that is no number
    throw Error("KV2202",
                fmt::format("the report {} cannot be read ({})", folder.string(), e.what()),
                "give a report of this version");
  }
}

json result_json(const PropertyResult& result) {
  json value = {{"property", result.property},
                {"sentence", result.sentence},
                {"subject", result.subject},
                {"against", result.against},
                {"against_used", result.against_used},
                {"verdict", to_string(result.verdict)},
                {"counts", counts_json(result.counts)},
                {"case", nullptr},
                {"seed", result.seed},
                {"cases", result.cases},
                {"budget_used", number(result.budget_used)},
                {"first_difference", nullptr},
                {"cause", nullptr},
                {"shrunk", nullptr},
                {"message", result.message},
                {"seconds", result.seconds}};
  value["compared"] = compared_of(result.counts);
  for (const Reason& reason : result.reasons) {
    json item = {
        {"verdict", to_string(reason.verdict)}, {"text", reason.text}, {"cases", reason.cases}};
    if (!reason.first.empty()) item["first"] = reason.first;
    value["reasons"].push_back(std::move(item));
  }
  if (result.besides) value["besides"] = besides_json(*result.besides);
  if (!result.whole) value["complete"] = false;
  if (!result.kept.empty()) value["kept"] = counts_json(result.kept);
  for (const ListedFailure& listed : result.listed)
    value["known_failures"].push_back(listed_json(listed));
  if (!result.failure) return value;
  const Failure& failure = *result.failure;
  if (!failure.file.empty()) value["case"] = "failures/" + failure.file.filename().string();
  value["found_at"] = failure.found_at;
  if (failure.kept) value["from_kept_case"] = true;
  if (!failure.verdict.deviations.arrays.empty())
    value["deviations"] = deviations_json(failure.verdict.deviations);
  if (failure.verdict.first_difference) {
    value["first_difference"] = to_json(*failure.verdict.first_difference);
  }
  if (!failure.verdict.cause.empty()) value["cause"] = failure.verdict.cause;
  if (!failure.verdict.departs.empty()) value["departs"] = failure.verdict.departs;
  if (!failure.breaks_too.empty()) value["breaks_too"] = failure.breaks_too;
  const CaseExtent extent = extent_of(failure.smallest);
  value["shrunk"] = {{"layers", extent.layers}, {"prompt", extent.prompt}, {"calls", extent.calls}};
  return value;
}

json summary_json(const RunSummary& summary) {
  json properties = json::array();
  for (const PropertyResult& result : summary.results) {
    properties.push_back({{"property", result.property},
                          {"subject", result.subject},
                          {"cases", result.cases},
                          {"compared", compared_of(result.counts)},
                          {"counts", counts_json(result.counts)}});
  }
  const double minutes = summary.seconds / 60;
  // A killed run has no exit code.
  const bool ended = summary.complete || summary.interrupted || summary.ended_with;
  json value = {{"commit", summary.commit.empty() ? json(nullptr) : json(summary.commit)},
                {"seed", summary.seed},
                {"size", to_string(summary.size)},
                {"shard", fmt::format("{}/{}", summary.shard, summary.shards)},
                {"complete", summary.complete},
                {"seconds", summary.seconds},
                {"cases", summary.cases},
                {"compared", compared_of(summary.counts)},
                {"cases_per_property", summary.cases_per_property},
                {"cases_per_minute", minutes > 0 ? double(summary.cases) / minutes : 0},
                {"counts", counts_json(summary.counts)},
                {"properties", std::move(properties)},
                {"coverage", coverage_json(summary.coverage)},
                {"coverage_judged", summary.coverage_judged},
                {"subjects", subjects_json(summary.subjects)},
                {"distribution", summary.distribution},
                {"environment", summary.environment},
                {"asked", asked_json(summary.asked)},
                {"exit_code", ended ? json(exit_code(summary)) : json(nullptr)}};
  if (!summary.merged.empty()) value["merged"] = summary.merged;
  return value;
}

void write_report(const RunSummary& summary, const Path& folder) {
  std::string lines;
  for (const PropertyResult& result : summary.results) {
    lines += result_json(result).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  replace_file(folder / "results.jsonl", lines);
  replace_file(folder / "summary.json",
               summary_json(summary).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  replace_file(folder / "junit.xml", junit_xml(summary));
  replace_file(folder / "summary.md", summary_markdown(summary));
  replace_file(folder / "index.html", summary_html(summary));
}

}  // namespace kvconform
