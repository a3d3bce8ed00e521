// Words and files for the matrix.
#include "properties/faults/matrix_report.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "properties/faults/property_shares.h"
#include "properties/reports/report.h"
#include "properties/runner.h"
#include "properties/subjects/kernel_trial.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

std::string place_text(const Catch& caught) {
  if (!caught.place) return "-";
  if (caught.place->layer < 0) return caught.place->part;
  return fmt::format("layer {} {}", caught.place->layer, caught.place->part);
}

std::string pinned_text(const FaultResult& result) {
  if (!result.has_place()) return "-";
  return result.catches[0].pinned ? "yes" : "no";
}

std::string names_of(const FaultResult& result) {
  std::string names;
  for (const Catch& caught : result.catches)
    names += (names.empty() ? "" : ", ") + fmt::format("{} ({})", caught.property, caught.cases);
  return names;
}

/// The bar is what ends a cell.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> without_fault_of_their_own(const std::vector<PropertyShare>& shares) {
  std::vector<std::string> names;
  for (const PropertyShare& share : shares)
    if (!share.earns_its_place()) names.push_back(share.property);
  return names;
}

json shares_json(const std::vector<PropertyShare>& shares) {
  json rows = json::array();
  for (const PropertyShare& share : shares)
    rows.push_back({{"property", share.property},
                    {"caught", share.caught},
                    {"alone", share.alone},
                    {"first", share.first}});
  return rows;
}

json catch_json(const Catch& caught) {
  json value = {{"property", caught.property}, {"asked", caught.asked},
                {"cases", caught.cases},       {"verdict", to_string(caught.kind)},
                {"first_difference", nullptr}, {"pinned", caught.pinned},
                {"layers", caught.layers},     {"prompt", caught.prompt},
                {"window", caught.window},     {"calls", caught.calls},
                {"message", caught.message}};
  if (caught.place) value["first_difference"] = to_json(*caught.place);
  return value;
}

json result_json_of(const FaultResult& result) {
  json catches = json::array();
  for (const Catch& caught : result.catches) catches.push_back(catch_json(caught));
  return {{"fault", result.fault.name},
          {"class", result.fault.fault_class},
          {"bugs", result.fault.bugs},
          {"description", result.fault.description},
          {"expected", result.fault.caught_by},
          {"deep", result.fault.deep},
          {"caught", result.caught()},
          {"cases", result.cases},
          {"pinned", result.has_place() ? json(result.catches[0].pinned) : json(nullptr)},
          {"catches", catches},
          {"seconds", result.seconds}};
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  if (!out.flush())
    throw HarnessError("KV2210", fmt::format("cannot write {}", file.string()),
                       "make room on the disk, or choose another folder");
}

}  // namespace

std::string totals_text(const std::vector<FaultResult>& results, const MatrixOptions& options) {
  const MatrixTotals totals = totals_of(results);
  std::string text = fmt::format(
      "first difference where the fault acts: {} of {} that {} a place ({:.0f} %; at "
      "least {} % are asked for)\n",
      totals.pinned, counted(totals.with_place, "fault"),
      agreeing(totals.with_place, "has", "have"), totals.pinned_percent(),
      MatrixTotals::kPinnedPercent);
  text += fmt::format("cases, {}: median {} and a prompt of the window {:+d} {} (",
                      options.shrink_seconds > 0 ? "shrunk" : "as found",
                      counted(totals.median_layers, "layer"), totals.median_prompt_past_window,
                      agreeing(totals.median_prompt_past_window, "token", "tokens"));
  text += options.shrink_seconds > 0
              ? fmt::format("at most {} and {:+d} are asked for)\n", MatrixTotals::kLayers,
                            MatrixTotals::kPromptPastWindow)
              : std::string("--shrink makes them small)\n");
  text += totals.deep.empty()
              ? std::string("size deep: no fault needs it\n")
              : fmt::format("size deep alone must catch: {}\n", joined(totals.deep));
  if (totals.races > 0)
    text += fmt::format("missing barriers and reads past an end, caught by the race checker: {}\n",
                        totals.races);
  if (options.whole) {
    const std::vector<std::string> plain = without_fault_of_their_own(shares_of(results));
    text += plain.empty()
                ? std::string("each property catches a fault alone or before all others\n")
                : fmt::format("no fault alone or before all others: {}\n", joined(plain));
  }
  return text + fmt::format(
                    "{} of {} caught, {} by the property or checker named for them; median "
                    "{}, "
                    "at most {}\n",
                    totals.caught, counted(totals.faults, "fault"), totals.caught_as_expected,
                    counted(totals.median_cases, "case"), totals.most_cases);
}

std::string catch_text(const FaultResult& result) {
  if (!result.caught()) return "expected of " + result.fault.caught_by;
  const Catch& first = result.catches[0];
  std::string text = fmt::format("{} after {}", first.property, counted(result.cases, "case"));
  if (first.property == kRaceChecker) text += " of " + first.asked;
  if (first.property != result.fault.caught_by)
    text += fmt::format(" (expected of {})", result.fault.caught_by);
  text += fmt::format("; {}, {}", counted(first.layers, "layer"), counted(first.prompt, "token"));
  if (result.has_place())
    text += fmt::format("; {} {}", place_text(first), first.pinned ? "(right)" : "(elsewhere)");
  if (result.catches.size() > 1)
    text += "; caught by " + counted(result.catches.size(), "property");
  return text;
}

std::string matrix_markdown(const std::vector<FaultResult>& results, const MatrixOptions& options) {
  std::string text =
      fmt::format("# Planted faults and the properties that catch them\n\nSeed {}, size {}.\n\n",
                  options.seed, to_string(options.size));
  std::istringstream lines(totals_text(results, options));
  for (std::string line; std::getline(lines, line);) text += "- " + line + "\n";
  if (options.whole) {
    text +=
        "\n## Properties\n\nEvery property was asked about every fault, each with the same "
        "cases. Alone: none of the others caught the fault in theirs. Before all others: after "
        "fewer cases than any other property needed; a tie is first for neither.\n\n";
    text += shares_markdown(shares_of(results));
  }
  text += "\n## Faults\n\n";
  text +=
      "| fault | class | modelled on | caught by (cases) | cases | case | first difference | "
      "right |\n|---|---|---|---|---:|---|---|---|\n";
  for (const FaultResult& r : results) {
    if (!r.caught()) {
      text += fmt::format("| `{}` | {} | {} | **missed**, expected of {} | {} | - | - | - |\n",
                          r.fault.name, cell(r.fault.fault_class), cell(r.fault.bugs),
                          r.fault.caught_by, r.cases);
      continue;
    }
    const Catch& first = r.catches[0];
    text += fmt::format("| `{}` | {} | {} | {} | {} | {}, {}, window {} | {} | {} |\n",
                        r.fault.name, cell(r.fault.fault_class), cell(r.fault.bugs), names_of(r),
                        r.cases, counted(first.layers, "layer"), counted(first.prompt, "token"),
                        first.window, place_text(first), pinned_text(r));
  }
  return text;
}

std::string matrix_json(const std::vector<FaultResult>& results, const MatrixOptions& options) {
  const MatrixTotals totals = totals_of(results);
  json rows = json::array();
  for (const FaultResult& result : results) rows.push_back(result_json_of(result));
  json value = {{"seed", options.seed},
                {"size", to_string(options.size)},
                {"whole", options.whole},
                {"shrunk", options.shrink_seconds > 0},
                {"faults", totals.faults},
                {"caught", totals.caught},
                {"caught_as_expected", totals.caught_as_expected},
                {"median_cases", totals.median_cases},
                {"most_cases", totals.most_cases},
                {"with_place", totals.with_place},
                {"pinned", totals.pinned},
                {"median_layers", totals.median_layers},
                {"median_prompt_past_window", totals.median_prompt_past_window},
                {"deep", totals.deep},
                {"results", rows}};
  if (options.whole) value["properties"] = shares_json(shares_of(results));
  return value.dump(2) + "\n";
}

void open_matrix_report(const std::filesystem::path& folder) {
  open_report(folder, /*resume=*/false);
}

void write_matrix_report(const std::vector<FaultResult>& results, const MatrixOptions& options,
                         const std::filesystem::path& folder) {
  write(folder / "faults.md", matrix_markdown(results, options));
  write(folder / "faults.json", matrix_json(results, options));
}

}  // namespace kvconform
