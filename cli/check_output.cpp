// Texts of a finished check (see check_output.h).
#include "cli/check_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "properties/property.h"
#include "properties/reports/report.h"

namespace kvconform::cli {
namespace {

bool is_failure(VerdictKind kind) {
  return kind == VerdictKind::differs || kind == VerdictKind::broken ||
         kind == VerdictKind::flaky || kind == VerdictKind::unexpectedly_conforms;
}

Colour colour_of(VerdictKind kind) {
  if (is_failure(kind)) return Colour::red;
  return kind == VerdictKind::conforms ? Colour::green : Colour::yellow;
}

struct Widths {
  std::size_t property = 8, subject = 7;
};

Widths widths_of(const RunSummary& summary) {
  Widths widths;
  for (const PropertyResult& result : summary.results) {
    widths.property = std::max(widths.property, result.property.size());
    widths.subject = std::max(widths.subject, result.subject.size());
  }
  return widths;
}

std::string budget_text(const PropertyResult& result) {
  if (result.budget_used == 0) return "-";
  if (!std::isfinite(result.budget_used)) return "bits";  // bit equality was asked for, and failed
  return fmt::format("{:.0f}%", 100 * result.budget_used);
}

std::string row(const PropertyResult& result, const Widths& widths) {
  const std::string verdict = fmt::format("{:<16}", to_string(result.verdict));
  return fmt::format("{:<{}}  {:<{}}  {}  {:>7}  {:>7}  {:>8}\n", result.property, widths.property,
                     result.subject, widths.subject,
                     coloured(verdict, colour_of(result.verdict), Stream::out), result.cases,
                     budget_text(result), duration(result.seconds));
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string outcome(const RunSummary& summary, int exit_code) {
  if (summary.interrupted) return "interrupted, incomplete";
  switch (exit_code) {
    case 0:
      return "conforms";
    case 1:
      return "does not conform";
    case 3:
      return "too little was compared";
    case 4:
      return "a subject broke";
    default:
      return fmt::format("exit code {}", exit_code);
  }
}

}  // namespace

std::string summary_table(const RunSummary& summary) {
  const Widths widths = widths_of(summary);
  std::string table =
      fmt::format("{:<{}}  {:<{}}  {:<16}  {:>7}  {:>7}  {:>8}\n", "property", widths.property,
                  "subject", widths.subject, "verdict", "cases", "budget", "time");
  for (const PropertyResult& result : summary.results) {
    table += row(result, widths);
    if (!is_failure(result.verdict) && result.verdict != VerdictKind::conforms &&
        !result.message.empty())
      table += fmt::format("  {}\n", first_line(result.message));
  }
  return table;
}

std::string missing_coverage(const RunSummary& summary) {
  std::string text;
  if (!summary.coverage_judged) return text;
  for (const auto& [name, coverage] : summary.coverage)
    if (coverage.met < coverage.required)
      text +=
          fmt::format("hard cases missing: {}: {} of {}\n", name, coverage.met, coverage.required);
  return text;
}

std::string last_line(const RunSummary& summary, int exit_code) {
  const double minutes = summary.seconds / 60;
  const double rate = minutes > 0 ? static_cast<double>(summary.cases) / minutes : 0;
  const Colour colour = exit_code == 0 ? Colour::green : Colour::red;
  return fmt::format("{} cases in {}, {:.0f} cases a minute: {}\n", summary.cases,
                     duration(summary.seconds), rate,
                     coloured(outcome(summary, exit_code), colour, Stream::out));
}

std::string property_list() {
  std::string text;
  for (const auto& property : all_properties())
    text += fmt::format("{}\n  {}\n  needs: {}\n", property->name(), property->sentence(),
                        listed(property->needs()));
  return text;
}

void announce_to_github(const RunSummary& summary) {
  const char* actions = std::getenv("GITHUB_ACTIONS");
  if (actions == nullptr || std::string(actions) != "true") return;
  for (const PropertyResult& result : summary.results)
    if (is_failure(result.verdict))
      print("::error title=kvconform {}::{} ({}): {}\n", to_string(result.verdict), result.property,
            result.subject, first_line(result.message));
  if (const char* file = std::getenv("GITHUB_STEP_SUMMARY"))
    std::ofstream(file, std::ios::app) << summary_markdown(summary);
}

}  // namespace kvconform::cli
