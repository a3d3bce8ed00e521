// The summary as Markdown, for people and for the step summary of GitHub Actions.
#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "properties/books.h"
#include "properties/case_judge.h"
#include "properties/reports/plain_text.h"
#include "properties/reports/report.h"
#include "reference/counted.h"

namespace kvconform {
namespace {

/// Text inside a table's cell or a heading: one line, and no character that means something there.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : plain_text(text)) {
    if (c == '\n' || c == '\t') c = ' ';
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (std::string_view("|`*_\\[]").find(c) != std::string_view::npos)
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

/// A block of text as it is: its fence is longer than any run of backticks within.
std::string block(const std::string& text) {
  const std::string plain = plain_text(text);
  std::string fence = "```";
  while (plain.find(fence) != std::string::npos) fence += '`';
  return fmt::format("{}text\n{}{}{}\n", fence, plain, plain.ends_with('\n') ? "" : "\n", fence);
}

std::string share(double budget_used) {
  if (std::isinf(budget_used)) return "bits differ";
  if (budget_used > 1e6) return "> 1e6";
  return budget_used == 0 ? "0" : fmt::format("{:.3g}", budget_used);
}

std::string count_of(const VerdictCounts& counts) {
  std::string text;
  for (const auto& [kind, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(kind));
  }
  return text;
}

std::string table(const RunSummary& summary) {
  std::string text =
      "| property | subject | verdict | cases | compared | budget used | seconds |\n";
  text += "|---|---|---|---:|---:|---:|---:|\n";
  for (const PropertyResult& result : summary.results) {
    text += fmt::format("| {} | {} | {}{} | {} | {} | {} | {:.1f} |\n", cell(result.property),
                        cell(result.subject), to_string(result.verdict),
                        result.whole ? "" : " (interrupted)", result.cases,
                        compared_of(result.counts), share(result.budget_used), result.seconds);
  }
  return text;
}

/// What subjects said where they refused, and what cases needed that they lack.
std::string reasons_table(const RunSummary& summary) {
  std::string text;
  for (const PropertyResult& result : summary.results) {
    for (const Reason& reason : result.reasons)
      text += fmt::format(
          "| {} | {} | {} | {} | {} |\n", cell(result.property), cell(result.subject),
          to_string(reason.verdict), reason.cases,
          cell(reason.first.empty() ? reason.text : reason.text + "; first: " + reason.first));
  }
  if (text.empty()) return text;
  return "\n<details><summary>Why cases were not compared</summary>\n\n"
         "| property | subject | verdict | cases | in these words |\n|---|---|---|---:|---|\n" +
         text + "\n</details>\n";
}

std::string coverage_table(const RunSummary& summary) {
  if (summary.coverage.empty()) return "";
  std::string text = "\n<details><summary>Hard cases met</summary>\n\n| class | met | required |\n";
  text += "|---|---:|---:|\n";
  for (const auto& [name, entry] : summary.coverage) {
    text += fmt::format("| {} | {} | {} |\n", cell(name), entry.met, entry.required);
  }
  return text + "\n</details>\n";
}

/// One line a quantity, its values in order.
std::string distribution_table(const Distribution& distribution) {
  if (distribution.empty()) return "";
  std::string text = "\n<details><summary>What the generated cases were like</summary>\n\n";
  text += "| quantity | cases with each value |\n|---|---|\n";
  for (const auto& [quantity, counts] : distribution) {
    std::string values;
    for (const auto& [value, cases] : in_order(counts))
      values += fmt::format("{}{}: {}", values.empty() ? "" : ", ", cell(value), cases);
    text += fmt::format("| {} | {} |\n", cell(quantity), values);
  }
  return text + "\n</details>\n";
}

}  // namespace

std::string summary_markdown(const RunSummary& summary) {
  const int code = exit_code(summary);
  std::string text =
      fmt::format("# kvconform: {}\n\n", code == 0 ? "conforms" : "does not conform");
  if (code == 3) text = "# kvconform: too little was compared\n\n";
  if (!summary.complete) text = "# kvconform: incomplete run\n\n";
  text += fmt::format("{}, {} compared, in {:.1f} s, size {}, seed {}, shard {}/{}: {}.\n\n",
                      counted(summary.cases, "case"), compared_of(summary.counts), summary.seconds,
                      to_string(summary.size), summary.seed, summary.shard, summary.shards,
                      summary.counts.empty() ? "nothing ran" : count_of(summary.counts));
  text += table(summary);
  for (const PropertyResult& result : summary.results) {
    const std::string failure = failure_text(result);
    if (failure.empty()) continue;
    text += fmt::format("\n### {} on {}\n\n{}", cell(result.property), cell(result.subject),
                        block(failure));
  }
  return text + reasons_table(summary) + coverage_table(summary) +
         distribution_table(summary.distribution);
}

}  // namespace kvconform
