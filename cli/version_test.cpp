// The version must be one that a reader can check out: a full commit or an honest "unknown".
#include "cli/version.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace kvconform {
namespace {

TEST(Version, commit_is_empty_or_forty_hex_digits_with_an_optional_mark) {
  EXPECT_TRUE(std::regex_match(commit(), std::regex("|[0-9a-f]{40}(-dirty)?"))) << commit();
}

TEST(Version, text_names_version_and_commit) {
  const std::string known = *commit() ? commit() : "unknown";
  EXPECT_EQ(version_text(),
            "kvconform " + std::string(version_number()) + " (commit " + known + ")");
  EXPECT_TRUE(std::regex_match(version_number(), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
}

}  // namespace
}  // namespace kvconform
