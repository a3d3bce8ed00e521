// The two renderings. Words pass through html_text; a bar in Markdown would end its cell.
#include "bench/document.h"

#include <fmt/format.h>

#include "properties/reports/html_style.h"
#include "properties/reports/html_text.h"
#include "properties/reports/plain_text.h"

namespace kvconform::bench {
namespace {

constexpr const char* kPlotStyle =
    ".plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); "
    "gap: 1rem; margin: .8rem 0; }\n"
    ".plots svg { background: var(--panel); border: 1px solid var(--line); width: 100%; }\n"
    "table { margin: .6rem 0; } td.number { white-space: nowrap; }\n";

std::string cell(const std::string& text) {
  std::string out;
  for (char c : plain_text(text)) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& text : cells) out += " " + cell(text) + " |";
  return out + "\n";
}

std::string html_table(const Table& table) {
  std::string out = "<div class=\"scroll\"><table>\n<tr>";
  for (const std::string& head : table.head) out += "<th>" + html_text(head) + "</th>";
  out += "</tr>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += fmt::format("<td{}>{}</td>", i < table.words ? "" : " class=\"number\"",
                         html_text(row[i]));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string html_section(const Section& section) {
  std::string out = "<h2>" + html_text(section.title) + "</h2>\n";
  for (const std::string& sentence : section.sentences)
    out += "<p>" + html_text(sentence) + "</p>\n";
  if (!section.plots.empty()) {
    out += "<div class=\"plots\">\n";
    for (const std::string& plot : section.plots) out += plot;
    out += "</div>\n";
  }
  for (const Table& table : section.tables) out += html_table(table);
  return out;
}

}  // namespace

std::string markdown(const Table& table) {
  std::string out = markdown_row(table.head) + "|";
  for (std::size_t i = 0; i < table.head.size(); ++i) out += i < table.words ? "---|" : "---:|";
  out += "\n";
  for (const auto& row : table.rows) out += markdown_row(row);
  return out;
}

std::string markdown(const Document& document) {
  std::string out = fmt::format("# {}\n\n{}\n", document.title, plain_text(document.subtitle));
  for (const Section& section : document.sections) {
    out += fmt::format("\n## {}\n", section.title);
    for (const std::string& sentence : section.sentences) out += "\n" + plain_text(sentence) + "\n";
    for (const Table& table : section.tables) out += "\n" + markdown(table);
  }
  return out;
}

std::string html(const Document& document) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}{2}</style></head><body>\n<h1 class=\"{3}\">{0}</h1>\n"
      "<p class=\"soft\">{4}</p>\n",
      html_text(document.title), kReportStyle, kPlotStyle, document.good ? "good" : "bad",
      html_text(document.subtitle));
  for (const Section& section : document.sections) out += html_section(section);
  return out + "</body></html>\n";
}

}  // namespace kvconform::bench
