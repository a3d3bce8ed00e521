// index.html: the whole report on one page that needs no network, no script and no other file.
// Everything that comes from outside passes through `text`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "properties/books.h"
#include "properties/budget_words.h"
#include "properties/case_judge.h"
#include "properties/reports/html_style.h"
#include "properties/reports/html_text.h"
#include "properties/reports/report.h"
#include "properties/shrinking.h"
#include "reference/counted.h"

namespace kvconform {
namespace {

std::string text(std::string_view raw) {
  return html_text(raw);
}

const char* colour_of(VerdictKind kind) {
  if (is_failure(kind)) return "bad";
  return kind == VerdictKind::conforms ? "good" : "weak";
}

std::string headline(const RunSummary& summary) {
  if (!summary.complete) return "<h1 class=\"weak\">Incomplete run</h1>\n";
  switch (exit_code(summary)) {
    case 0:
      return "<h1 class=\"good\">Conforms</h1>\n";
    case 3:
      return "<h1 class=\"weak\">Too little was compared</h1>\n";
    case 4:
      return "<h1 class=\"bad\">A subject broke</h1>\n";
    default:
      return "<h1 class=\"bad\">Does not conform</h1>\n";
  }
}

std::string counts_text(const VerdictCounts& counts) {
  std::string out;
  for (const auto& [kind, count] : counts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, to_string(kind));
  return out.empty() ? "nothing ran" : out;
}

std::string opening(const RunSummary& summary) {
  std::string out = fmt::format(
      "<p class=\"soft\">kvconform {} · seed {} · size {} · {}, {} compared, in {:.1f} s · "
      "{}</p>\n",
      summary.commit.empty() ? "of an unknown commit" : text(summary.commit), summary.seed,
      to_string(summary.size), counted(summary.cases, "case"), compared_of(summary.counts),
      summary.seconds, counts_text(summary.counts));
  if (summary.shards > 1)
    out += fmt::format(
        "<p>Shard {} of {}: the others, and the required minimum, are not in here.</p>\n",
        summary.shard, summary.shards);
  if (!summary.merged.empty()) {
    out += "<p>Merged from";
    for (const std::string& folder : summary.merged)
      out += fmt::format(" <code>{}</code>", text(folder));
    out += "</p>\n";
  }
  if (!summary.complete)
    out += "<p class=\"weak\">Interrupted: the table shows what ran until then.</p>\n";
  return out;
}

template <class Field>
std::vector<std::string> distinct(const RunSummary& summary, Field field) {
  std::vector<std::string> names;
  for (const PropertyResult& result : summary.results) {
    if (std::find(names.begin(), names.end(), field(result)) == names.end())
      names.push_back(field(result));
  }
  return names;
}

std::string anchor_of(const RunSummary& summary, const PropertyResult& result) {
  return fmt::format("failure-{}", &result - summary.results.data());
}

std::string share_of_budget(double used) {
  return used <= 1 ? fmt::format("{:.0f}% of the budget", 100 * used)
                   : times_of_budget(used) + " the budget";
}

std::string verdict_cell(const RunSummary& summary, const PropertyResult& result) {
  std::string word = to_string(result.verdict);
  if (is_failure(result.verdict))
    word = fmt::format("<a class=\"bad\" href=\"#{}\">{}</a>", anchor_of(summary, result), word);
  std::string detail =
      fmt::format("{}, {} compared", counted(result.cases, "case"), compared_of(result.counts));
  if (!result.kept.empty()) detail += fmt::format(", kept: {}", counts_text(result.kept));
  if (result.budget_used > 0 && std::isfinite(result.budget_used))
    detail += ", " + share_of_budget(result.budget_used);
  if (!result.whole) detail += ", interrupted";
  const bool explained = !is_failure(result.verdict) && result.verdict != VerdictKind::conforms &&
                         !result.message.empty();
  const std::string reasons = reasons_text(result);
  return fmt::format("<td><span class=\"{}\">{}</span><br><span class=\"soft\">{}{}</span></td>",
                     colour_of(result.verdict), word, detail,
                     !reasons.empty() ? "<br>" + text(reasons)
                     : explained      ? "<br>" + text(result.message)
                                      : "");
}

std::string verdict_table(const RunSummary& summary) {
  const auto subjects = distinct(summary, [](const auto& r) { return r.subject; });
  const auto properties = distinct(summary, [](const auto& r) { return r.property; });
  if (properties.empty()) return "<p>No property has run.</p>\n";
  std::string out = "<div class=\"scroll\"><table>\n<tr><th>property</th>";
  for (const std::string& subject : subjects)
    out += fmt::format("<th class=\"subject\">{}</th>", text(subject));
  out += "</tr>\n";
  for (const std::string& property : properties) {
    std::string row, sentence;
    for (const std::string& subject : subjects) {
      const auto found = std::find_if(
          summary.results.begin(), summary.results.end(),
          [&](const auto& r) { return r.property == property && r.subject == subject; });
      if (found != summary.results.end()) sentence = found->sentence;
      row += found == summary.results.end() ? "<td class=\"soft\">not run</td>"
                                            : verdict_cell(summary, *found);
    }
    out += fmt::format(
        "<tr><th>{}<br><span class=\"soft\" style=\"font-weight:400\">{}</span></th>{}</tr>\n",
        text(property), text(sentence), row);
  }
  return out + "</table></div>\n";
}

std::string item(const char* term, const std::string& escaped) {
  return escaped.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, escaped);
}

/// 0 for agreement, 1 for a deviation as large as the values; a decade of six is a sixth.
double heat_of(double deviation) {
  if (std::isnan(deviation)) return 1;
  return deviation <= 0 ? 0 : std::clamp(1 + std::log10(deviation) / 8, 0.04, 1.0);
}

std::string heat_map(const DeviationMap& map) {
  if (map.arrays.empty()) return "";
  std::size_t tokens = 0;
  for (const auto& row : map.deviation) tokens = std::max(tokens, row.size());
  std::string out =
      fmt::format("<div class=\"scroll\"><table class=\"heat\"><tr><th>call {}, row {}; token</th>",
                  map.call, map.row);
  for (std::size_t t = 0; t < tokens; ++t)
    out += fmt::format("<th>{}</th>", map.first_token + static_cast<int>(t));
  out += "</tr>\n";
  for (std::size_t a = 0; a < map.arrays.size(); ++a) {
    out += fmt::format("<tr><th>{}</th>", text(map.arrays[a]));
    for (double value : map.deviation[a])
      out +=
          fmt::format("<td style=\"background:rgba(var(--heat),{:.2f})\" title=\"{:.3g}\">{}</td>",
                      heat_of(value), value, std::isnan(value) ? "NaN" : "");
    out += "</tr>\n";
  }
  return out +
         "</table></div>\n<p class=\"soft\">Deviation relative to the largest value, in order "
         "of computation: pale 1e-8 and below, full 1 and above.</p>\n";
}

std::string case_link(const Failure& failure) {
  if (failure.file.empty()) return "";
  const std::string name = failure.file.filename().string();
  return fmt::format("<a href=\"failures/{0}\">failures/{0}</a>", text(name));
}

std::string failure_panel(const RunSummary& summary, const PropertyResult& result) {
  std::string out = fmt::format("<div class=\"failure\" id=\"{}\"><h3>{} {} on {}</h3>\n<dl>\n",
                                anchor_of(summary, result), text(result.property),
                                to_string(result.verdict), text(result.subject));
  out += item("property", text(result.sentence));
  out += item("seen", text(result.message));
  if (!result.failure) return out + "</dl></div>\n";
  const Failure& failure = *result.failure;
  if (const auto& at = failure.verdict.first_difference) {
    out += item("first", text(describe_place(*at)));
    if (std::isfinite(at->expected) || std::isfinite(at->seen))
      out += item("values", text(describe_values(*at)));
  }
  if (std::isfinite(failure.verdict.budget_used) && failure.verdict.budget_used > 0)
    out += item("budget", times_of_budget(failure.verdict.budget_used) + " the error budget");
  out += item("departs", text(failure.verdict.departs));
  if (!failure.breaks_too.empty())
    out += item("first see", text(describe_earlier(failure.breaks_too)));
  out += item("cause", text(failure.verdict.cause));
  out += item("case", case_link(failure));
  const std::string again = text(replay_command(result));
  if (!again.empty()) out += item("again", "<code>" + again + "</code>");
  if (result.besides) out += item("besides", text(describe_others(*result.besides)));
  out += fmt::format("</dl>\n<pre>{}</pre>\n", text(describe_case(failure.smallest)));
  return out + heat_map(failure.verdict.deviations) + "</div>\n";
}

std::string failures(const RunSummary& summary) {
  std::string out;
  for (const PropertyResult& result : summary.results) {
    if (is_failure(result.verdict)) out += failure_panel(summary, result);
  }
  return out.empty() ? out : "<h2>Failures</h2>\n" + out;
}

/// One line of a bar chart; `mark` is what is required, where anything is.
std::string bar(const std::string& label, std::int64_t value, std::int64_t largest,
                std::int64_t mark = 0) {
  const auto share = [&](std::int64_t v) {
    return largest > 0
               ? std::min(100.0, 100.0 * static_cast<double>(v) / static_cast<double>(largest))
               : 0.0;
  };
  const std::string line =
      mark > 0 ? fmt::format("<u style=\"left:{:.2f}%\"></u>", share(mark)) : "";
  return fmt::format(
      "<span>{}</span><span class=\"bar{}\"><i "
      "style=\"width:{:.2f}%\"></i>{}</span><span>{}</span>\n",
      text(label), value < mark ? " short" : "", share(value), line,
      mark > 0 ? fmt::format("{}, {} due", value, mark) : fmt::format("{}", value));
}

std::string coverage_of(const std::string& subject, const SubjectBooks& books, bool alone) {
  std::int64_t largest = 0;
  for (const auto& [name, entry] : books.coverage)
    largest = std::max({largest, entry.met, entry.required});
  if (largest == 0) return "";
  const std::size_t missing = missing_classes(books).size();
  std::string out =
      fmt::format("<details{}><summary>{}{}</summary>\n<div class=\"bars\">\n",
                  missing > 0 || alone ? " open" : "", text(subject),
                  missing > 0 ? fmt::format(": {} short", counted(missing, "class")) : "");
  for (const auto& [name, entry] : books.coverage)
    out += bar(name, entry.met, largest, entry.required);
  return out + "</div></details>\n";
}

std::string coverage(const RunSummary& summary) {
  std::string out;
  for (const auto& [subject, books] : summary.subjects)
    out += coverage_of(subject, books, summary.subjects.size() == 1);
  if (out.empty()) return out;
  const char* note =
      summary.coverage_judged
          ? "The mark is the required minimum, as far as the subject's capabilities allow."
          : "No minimum is required of a shard, of chosen properties or of given models.";
  return fmt::format("<h2>Hard cases met</h2>\n<p class=\"soft\">{}</p>\n{}", note, out);
}

std::string distribution(const RunSummary& summary) {
  if (summary.distribution.empty()) return "";
  std::string out = "<h2>What the generated cases were like</h2>\n<div class=\"quantities\">\n";
  for (const auto& [quantity, counts] : summary.distribution) {
    std::int64_t largest = 0;
    for (const auto& [value, count] : counts) largest = std::max(largest, count);
    out += fmt::format("<div><h3>{}</h3><div class=\"bars\">\n", text(quantity));
    for (const auto& [value, count] : in_order(counts)) out += bar(value, count, largest);
    out += "</div></div>\n";
  }
  return out + "</div>\n";
}

std::string settings(const RunSummary& summary) {
  std::string out = "<h2>How it was run</h2>\n<dl>\n";
  out += item("held against", text(summary.asked.against));
  for (const std::string& model : summary.asked.models) out += item("model", text(model));
  for (const auto& [name, value] : summary.environment)
    out += item(text(name).c_str(), text(value));
  for (const auto& [name, books] : summary.subjects) {
    std::string can;
    for (const std::string& capability : books.info.capabilities)
      can += (can.empty() ? "" : ", ") + capability;
    out += item(text(name).c_str(), text(fmt::format("{} {}, {}: {}", books.info.name,
                                                     books.info.version, books.info.dtype, can)));
  }
  return out + "</dl>\n";
}

}  // namespace

std::string summary_html(const RunSummary& summary) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>kvconform report</title>\n<style>";
  out += kReportStyle;
  out += "</style></head><body>\n";
  out += headline(summary) + opening(summary);
  out += "<h2>Verdicts</h2>\n" + verdict_table(summary);
  out += failures(summary) + coverage(summary) + distribution(summary) + settings(summary);
  return out + "</body></html>\n";
}

}  // namespace kvconform
