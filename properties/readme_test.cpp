// README.md is true of the code: its table has every property with its sentence, its source and a
// fault that is planted for it, and the notes name properties there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "properties/faults/faults.h"
#include "properties/property.h"

namespace kvconform {
namespace {

using Cells = std::vector<std::string>;

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// The table that begins with this line, without its head.
std::vector<Cells> table_under(const std::string& head) {
  std::ifstream file(std::string(KVCONFORM_SOURCE_DIR) + "/properties/README.md");
  std::string line;
  while (std::getline(file, line) && line != head) continue;
  std::getline(file, line);  // the rule
  std::vector<Cells> rows;
  while (std::getline(file, line) && line.rfind("| ", 0) == 0) {
    std::istringstream cells(line.substr(1));
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');) rows.back().push_back(trimmed(cell));
  }
  return rows;
}

std::string unquoted(const std::string& name) {
  return name.size() < 2 ? name : name.substr(1, name.size() - 2);
}

const Cells* row_of(const std::vector<Cells>& rows, const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Cells& r) { return unquoted(r[0]) == name; });
  return found == rows.end() ? nullptr : &*found;
}

TEST(Readme, TheTableHasEachPropertyWithItsSentenceItsSourceAndAFaultPlantedForIt) {
  const std::vector<Cells> rows =
      table_under("| name | what must hold | oracle | catches, for one | source |");
  EXPECT_EQ(rows.size(), all_properties().size());
  for (const auto& property : all_properties()) {
    const Cells* row = row_of(rows, property->name());
    ASSERT_TRUE(row) << property->name();
    ASSERT_EQ(row->size(), 5u) << property->name();
    EXPECT_EQ((*row)[1], property->sentence());
    EXPECT_FALSE((*row)[2].empty()) << property->name();
    const auto fault = std::find_if(all_faults().begin(), all_faults().end(),
                                    [&](const Fault& f) { return f.name == unquoted((*row)[3]); });
    ASSERT_NE(fault, all_faults().end()) << (*row)[3];
    EXPECT_EQ(fault->caught_by, property->name()) << fault->name;
    EXPECT_EQ((*row)[4], property->source()) << property->name();
  }
}

}  // namespace
}  // namespace kvconform
