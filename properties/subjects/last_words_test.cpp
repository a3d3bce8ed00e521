// The line worth reading comes first, and nothing else is lost while there is room.
#include "properties/subjects/last_words.h"

#include <gtest/gtest.h>

namespace kvconform {
namespace {

const std::string kTraceback = R"(Traceback (most recent call last):
  File "engine.py", line 124, in <module>
    reply, payload = answer(request)
                     ^^^^^^^^^^^^^^^
  File "engine.py", line 51, in extend
    y = x / 0
        ~~^~~
ZeroDivisionError: division by zero
)";

constexpr const char* kTold =
    "ZeroDivisionError: division by zero; in File \"engine.py\", line 51, in extend: y = x / 0; "
    "called in File \"engine.py\", line 124, in <module>: reply, payload = answer(request)";

TEST(LastWords, OfAPythonProgramBeginWithTheExceptionAndWhereItWasRaised) {
  EXPECT_EQ(last_words_first(kTraceback, 1000), kTold);
  EXPECT_EQ(last_words_first("loading\nready\n" + kTraceback, 1000),
            std::string(kTold) + "; before that: loading | ready");
}

TEST(LastWords, OfAnExceptionInAnExceptionBeginWithTheLastOne) {
  const std::string second =
      "\nDuring handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"a.py\", line 2, in f\n    g()\n"
      "ValueError: two lines\nof message\n";
  const std::string told = last_words_first(kTraceback + second, 1000);
  EXPECT_EQ(told.rfind("ValueError: two lines | of message; in File \"a.py\", line 2, in f: g();"
                       " before that: Traceback (most recent call last): | File",
                       0),
            0u)
      << told;
}

TEST(LastWords, BeginWithTheLastLineWhateverTheProgram) {
  EXPECT_EQ(last_words_first("loading\n\nassertion failed: x > 0\r\n \n", 1000),
            "assertion failed: x > 0; before that: loading");
  EXPECT_EQ(last_words_first("one", 1000), "one");
  EXPECT_EQ(last_words_first(" \n\n", 1000), "");
  EXPECT_EQ(last_words_first("", 1000), "");
  const std::string cut_off = "  File \"engine.py\", line 51, in extend\nZeroDivisionError: x\n";
  EXPECT_EQ(last_words_first(cut_off, 1000),
            "ZeroDivisionError: x; before that: File \"engine.py\", line 51, in extend");
}

TEST(LastWords, AfterATracebackOfLongAgoAreNotTheTraceback) {
  const std::string told = last_words_first(kTraceback + "1\n2\n3\n4\n5\nkilled\n", 1000);
  EXPECT_EQ(told.rfind("killed; before that: ", 0), 0u) << told;
  EXPECT_EQ(last_words_first("Traceback (most recent call last):\n  File \"a\", line 1\n", 1000)
                .rfind("File \"a\", line 1; before that: Traceback", 0),
            0u);
}

TEST(LastWords, AreCutWhereLeastIsLost) {
  std::string flood;
  for (int i = 0; i < 100; ++i) flood += "noise " + std::to_string(i) + "\n";
  EXPECT_EQ(last_words_first(flood, 30), "noise 99; before that: … noise 97 | noise 98");
  EXPECT_EQ(last_words_first(std::string(50, 'x'), 10), std::string(10, 'x') + "…");
  EXPECT_EQ(last_words_first("a\x01\n\xff", 10), "\\xff; before that: a\\x01");
}

TEST(LastWords, MessagesKeepTheirOrderButForATraceback) {
  EXPECT_EQ(message_in_words("KV1: problem\n  remedy: do", 100), "KV1: problem |   remedy: do");
  EXPECT_EQ(message_in_words(kTraceback, 1000), kTold);
  EXPECT_EQ(message_in_words("extend failed\n" + kTraceback, 1000),
            std::string(kTold) + "; before that: extend failed");
}

}  // namespace
}  // namespace kvconform
