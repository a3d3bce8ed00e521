// Texts of a finished check (see check_output.h).
#include "cli/check_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stored_results.h"
#include "cli/words.h"
#include "properties/books.h"
#include "properties/case_judge.h"
#include "properties/property.h"
#include "properties/reports/plain_text.h"
#include "properties/reports/report.h"
#include "reference/counted.h"

namespace kvconform::cli {
namespace {

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
  if (result.budget_used > 1e6) return "> 1e6 x";
  if (result.budget_used > 10) return fmt::format("{:.3g} x", result.budget_used);
  return fmt::format("{:.0f}%", 100 * result.budget_used);
}

std::string row(const PropertyResult& result, const Widths& widths) {
  const std::string verdict = fmt::format("{:<16}", to_string(result.verdict));
  return fmt::format("{:<{}}  {:<{}}  {}  {:>7}  {:>8}  {:>8}  {:>8}\n", result.property,
                     widths.property, result.subject, widths.subject,
                     coloured(verdict, colour_of(result.verdict), Stream::out), result.cases,
                     compared_of(result.counts), budget_text(result), duration(result.seconds));
}

// The workflow commands of GitHub Actions end at a line's end.
std::string annotation(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '%')
      escaped += "%25";
    else if (c == '\r')
      escaped += "%0D";
    else if (c == '\n')
      escaped += "%0A";
    else
      escaped += c;
  }
  return escaped;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Properties about one subject that ask the truth as well: whether it moves, or what it gives on a
// model that the property made.
bool asks_the_truth(const std::string& property) {
  static const std::set<std::string> names = {
      "dead-tensors",      "finite",   "global-reach", "knob-sensitivity",
      "rotary-convention", "topology", "window-reach"};
  return names.count(property) > 0;
}

std::string held_against_what(const PropertyResult& result) {
  if (result.against_used) return result.against;
  return asks_the_truth(result.property) ? "the subject itself and the double reference"
                                         : "the subject itself";
}

// What only some of a property's cases need.
std::string needs_text(const Property& property) {
  const std::string needs = property.needs().empty() ? "nothing" : listed(property.needs());
  const std::string name = property.name();
  if (name == "fork-and-reorder") return needs + "; a case fork or reorder, whichever it uses";
  if (name == "far-positions") return needs + "; nearly all cases start";
  return needs;
}

bool nothing_compared(const RunSummary& summary) {
  return std::none_of(summary.results.begin(), summary.results.end(), [](const auto& result) {
    return std::any_of(result.counts.begin(), result.counts.end(), [](const auto& count) {
      return count.second > 0 && was_compared(count.first);
    });
  });
}

std::string outcome(const RunSummary& summary, int exit_code) {
  if (summary.interrupted) return "interrupted, incomplete";
  switch (exit_code) {
    case 0: {
      const auto known = summary.counts.find(VerdictKind::known);
      if (known == summary.counts.end() || known->second == 0) return "conforms";
      return "conforms but for " + counted(known->second, "known failure");
    }
    case 1:
      return "does not conform";
    case 3:
      return nothing_compared(summary) ? "nothing was compared" : "too little was compared";
    case 4:
      return "a subject broke";
    default:
      return fmt::format("exit code {}", exit_code);
  }
}

}  // namespace

std::string summary_table(const RunSummary& summary) {
  const Widths widths = widths_of(summary);
  std::string table = fmt::format("{:<{}}  {:<{}}  {:<16}  {:>7}  {:>8}  {:>8}  {:>8}\n",
                                  "property", widths.property, "subject", widths.subject, "verdict",
                                  "cases", "compared", "budget", "time");
  for (const PropertyResult& result : summary.results) {
    table += row(result, widths);
    const std::string reasons = reasons_text(result);
    if (!reasons.empty())
      table += fmt::format("  {}\n", first_line(plain_text(reasons)));
    else if (!is_failure(result.verdict) && result.verdict != VerdictKind::conforms &&
             !result.message.empty())
      table += fmt::format("  {}\n", first_line(result.message));
  }
  return table;
}

std::string held_against(const RunSummary& summary) {
  std::map<std::string, std::vector<std::string>> properties;  // by what they were held against
  for (const PropertyResult& result : summary.results) {
    if (!was_compared(result.verdict)) continue;
    auto& names = properties[held_against_what(result)];
    if (std::find(names.begin(), names.end(), result.property) == names.end())
      names.push_back(result.property);
  }
  std::string text;
  for (const auto& [against, names] : properties)
    text += fmt::format("held against {}: {}\n", against, listed(names));
  return text;
}

std::string kept_failures(const RunSummary& summary) {
  for (const PropertyResult& result : summary.results)
    if (result.failure && !result.failure->file.empty())
      return fmt::format(
          "failing cases are kept in {} until you remove it; --report DIR chooses "
          "the folder\n",
          result.failure->file.parent_path().string());
  return "";
}

std::string missing_coverage(const RunSummary& summary) {
  std::string text;
  if (!summary.coverage_judged) return text;
  for (const auto& [subject, books] : summary.subjects)
    for (const auto& [name, coverage] : missing_classes(books))
      text += fmt::format("hard cases missing on {}: {}: {} of {}\n", subject, name, coverage.met,
                          coverage.required);
  return text;
}

std::string unasked_known_failures(const RunSummary& summary) {
  const auto& subjects = summary.asked.subjects;
  std::string text;
  for (const KnownFailure& entry : summary.asked.known)
    if (std::find(subjects.begin(), subjects.end(), entry.subject) == subjects.end())
      text += fmt::format("known failure of {}, not used: {} is not among the subjects\n",
                          entry.property, plain_text(entry.subject));
  return text;
}

std::string last_line(const RunSummary& summary, int exit_code) {
  const double minutes = summary.seconds / 60;
  const double rate = minutes > 0 ? static_cast<double>(summary.cases) / minutes : 0;
  const Colour colour = exit_code == 0 ? Colour::green : Colour::red;
  return fmt::format("{}, {} compared, in {}, {} a minute: {}\n", counted(summary.cases, "case"),
                     compared_of(summary.counts), duration(summary.seconds),
                     counted(std::llround(rate), "case"),
                     coloured(outcome(summary, exit_code), colour, Stream::out));
}

std::string property_list() {
  std::string text;
  for (const auto& property : all_properties())
    text += fmt::format("{}\n  {}\n  needs: {}\n", property->name(), property->sentence(),
                        needs_text(*property));
  for (const StoredCheck& check : stored_checks())
    text += fmt::format("{}\n  {}\n  needs: {}\n", check.name, check.sentence, check.subjects);
  return text;
}

void announce_to_github(const RunSummary& summary) {
  const char* actions = std::getenv("GITHUB_ACTIONS");
  if (actions == nullptr || std::string(actions) != "true") return;
  for (const PropertyResult& result : summary.results)
    if (is_failure(result.verdict))
      print("::error title=kvconform {}::{}\n", to_string(result.verdict),
            annotation(fmt::format("{} ({}): {}", result.property, result.subject,
                                   first_line(result.message))));
  if (const char* file = std::getenv("GITHUB_STEP_SUMMARY"))
    std::ofstream(file, std::ios::app) << summary_markdown(summary);
}

}  // namespace kvconform::cli
