// One is one, and everything else is several.
#include "reference/counted.h"

#include <gtest/gtest.h>

namespace kvconform {
namespace {

TEST(Counted, OneIsSingularAndAllOthersArePlural) {
  EXPECT_EQ(counted(1, "layer"), "1 layer");
  EXPECT_EQ(counted(0, "layer"), "0 layers");
  EXPECT_EQ(counted(2, "key position"), "2 key positions");
  EXPECT_EQ(counted(-1, "layer"), "-1 layers");
  EXPECT_EQ(counted(std::int64_t{1} << 40, "byte"), "1099511627776 bytes");
}

TEST(Counted, NounsThatTakeMoreThanAnSAreKnown) {
  EXPECT_EQ(plural_of("entry"), "entries");
  EXPECT_EQ(plural_of("property"), "properties");
  EXPECT_EQ(plural_of("key"), "keys");
  EXPECT_EQ(plural_of("class"), "classes");
  EXPECT_EQ(plural_of("batch"), "batches");
  EXPECT_EQ(plural_of("index"), "indexes");
}

TEST(Counted, VerbsAgree) {
  EXPECT_STREQ(agreeing(1, "is", "are"), "is");
  EXPECT_STREQ(agreeing(0, "is", "are"), "are");
  EXPECT_STREQ(agreeing(2, "is", "are"), "are");
}

}  // namespace
}  // namespace kvconform
