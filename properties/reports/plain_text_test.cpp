// Whatever bytes come in, what goes out is UTF-8 that an XML parser takes; good text stays as it
// is.
#include "properties/reports/plain_text.h"

#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <string>

namespace kvconform {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(PlainText, GoodTextStaysAsItIs) {
  for (const std::string text :
       {"", "plain & <tags>", "tab\tand\nline", "caf\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
        "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(plain_text(text), text);
  }
}

TEST(PlainText, BytesThatAreNoCharacterAreReplacedOneByOne) {
  EXPECT_EQ(plain_text("a\xFFz"), "a" + kBad + "z");
  EXPECT_EQ(plain_text("\x80"), kBad);
  EXPECT_EQ(plain_text("\xC3"), kBad);                                   // cut off
  EXPECT_EQ(plain_text("\xE2\x82"), kBad + kBad);                        // cut off
  EXPECT_EQ(plain_text("\xC0\xAF"), kBad + kBad);                        // overlong
  EXPECT_EQ(plain_text("\xE0\x80\xAF"), kBad + kBad + kBad);             // overlong
  EXPECT_EQ(plain_text("\xED\xA0\x80"), kBad + kBad + kBad);             // a surrogate
  EXPECT_EQ(plain_text("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad);  // beyond U+10FFFF
  EXPECT_EQ(plain_text("\xC3("), kBad + "(");
}

TEST(PlainText, OnlyWellFormedTextIsUtf8) {
  for (const std::string good : {"", "a\n\x01", "caf\xC3\xA9"}) EXPECT_TRUE(is_utf8(good)) << good;
  for (const std::string bad : {"\xFF", "caf\xC3", "\xED\xA0\x80"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST(PlainText, CharactersThatXmlForbidsAreReplaced) {
  EXPECT_EQ(plain_text(std::string("\0\x01\x1B[31m\r", 8)), "???[31m?");
  EXPECT_EQ(plain_text("\xEF\xBF\xBE\xEF\xBF\xBF"), kBad + kBad);
}

}  // namespace
}  // namespace kvconform
