// A report before it has a format: sections of sentences, tables and plots. Rendered as Markdown
// (without plots) and as one HTML page that needs no network, no script and no other file.
#pragma once

#include <string>
#include <vector>

namespace kvconform::bench {

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::size_t words = 1;  ///< columns from the left that hold words; numbers are right-aligned
};

struct Section {
  std::string title;
  std::vector<std::string> sentences;
  std::vector<std::string> plots;  ///< SVG
  std::vector<Table> tables;
};

struct Document {
  std::string title;
  bool good = true;  ///< colour of the title
  std::string subtitle;
  std::vector<Section> sections;
};

std::string markdown(const Table& table);
std::string markdown(const Document& document);
std::string html(const Document& document);

}  // namespace kvconform::bench
