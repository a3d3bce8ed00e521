// Every error id that this folder throws is explained in its README.md, and every id explained
// there is thrown: whoever meets an id can look it up, and the table does not outlive the code.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;
const fs::path folder = fs::path(KVCONFORM_SOURCE_DIR) / "reference";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::set<std::string> ids_in(const std::string& text) {
  static const std::regex id("KV1[0-9]{3}");
  return {std::sregex_token_iterator(text.begin(), text.end(), id), std::sregex_token_iterator()};
}

bool is_source(const fs::path& path) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  const bool test = name.size() > 9 && name.substr(name.size() - 9) == "_test.cpp";
  return !test && (extension == ".cpp" || extension == ".h" || extension == ".hpp");
}

std::set<std::string> thrown_ids() {
  std::set<std::string> ids;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_source(entry.path())) ids.merge(ids_in(read(entry.path())));
  }
  return ids;
}

TEST(ErrorIds, EachThrownIdIsExplainedInTheReadme) {
  const auto explained = ids_in(read(folder / "README.md"));
  const auto thrown = thrown_ids();
  EXPECT_GE(thrown.size(), 30u);  // an empty search would pass too
  for (const std::string& id : thrown)
    EXPECT_TRUE(explained.count(id)) << id << " is not in README.md";
}

TEST(ErrorIds, EachExplainedIdIsThrown) {
  const auto thrown = thrown_ids();
  for (const std::string& id : ids_in(read(folder / "README.md"))) {
    EXPECT_TRUE(thrown.count(id)) << id << " is in README.md only";
  }
}

}  // namespace
