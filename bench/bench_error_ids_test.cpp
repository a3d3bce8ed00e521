// Every KV50xx that this folder and the commands above it throw is explained in its README.md, and
// every id explained there is thrown.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;
using Ids = std::set<std::string>;
const fs::path source = KVCONFORM_SOURCE_DIR;

void add_ids(const fs::path& file, Ids& ids) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  static const std::regex id("KV50[0-9]{2}");
  for (std::sregex_iterator match(text.begin(), text.end(), id), end; match != end; ++match)
    ids.insert(match->str());
}

TEST(ErrorIds, the_readme_explains_the_ids_that_are_thrown_and_no_others) {
  Ids thrown, explained;
  for (const char* folder : {"bench", "cli"})
    for (const auto& entry : fs::directory_iterator(source / folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() == ".cpp" && name.find("_test.cpp") == std::string::npos)
        add_ids(entry.path(), thrown);
    }
  add_ids(source / "bench" / "README.md", explained);
  EXPECT_GE(thrown.size(), 6u);  // an empty search would pass too
  EXPECT_EQ(thrown, explained);
}

}  // namespace
