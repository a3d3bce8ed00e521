// Case files: what is written is what is read, and garbage is refused with an id, never with a
// crash.
#include "properties/case.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "properties/temporary_folder.h"
#include "reference/error.h"
#include "reference/random.h"

namespace kvconform {
namespace {

const char* const kText =
    R"({"format": "kvconform-case-1", "property": "chunking", "seed": 18446744073709551615,
  "index": 7, "subject": "reference", "against": "reference:double",
  "model": {"config": {"model_type": "gemma3n_text"},
            "weights": {"seed": 5, "dtype": "BF16", "dead_tensors": "nan"}},
  "calls": [{"call": "open", "session": 0, "batch": 2, "capacity": 9, "start": 3},
            {"call": "extend", "session": 0, "tokens": [[1, 2], []]},
            {"call": "rewind", "session": 0, "lengths": [1, 0]},
            {"call": "reorder", "session": 0, "rows": [1, 1]},
            {"call": "save", "session": 0},
            {"call": "fork", "session": 1, "from": 0},
            {"call": "restore", "session": 2, "from": 0},
            {"call": "close", "session": 1},
            {"call": "score", "tokens": [[3]]}]})";

std::string id_of(const std::string& text) {
  try {
    parse_case(text, "test");
  } catch (const Error& e) {
    return e.id();
  }
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kText;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(CaseFile, EveryKindOfCallSurvivesWritingAndReading) {
  const Case first = parse_case(kText, "test");
  ASSERT_EQ(first.calls.size(), 9u);
  EXPECT_EQ(first.seed, 18446744073709551615ull);
  EXPECT_EQ(first.calls[0].start, 3);
  EXPECT_EQ(first.model.weights.dead_tensors, DeadTensors::nan);
  const Case again = case_from_json(to_json(first), "again");
  EXPECT_EQ(again.calls, first.calls);
  EXPECT_EQ(to_json(again), to_json(first));
  const TemporaryFolder folder("kvconform-case-test");
  write_case(first, folder.path() / "case.json");
  EXPECT_EQ(to_json(read_case(folder.path() / "case.json")), to_json(first));
}

TEST(CaseFile, WhatIsNoCaseIsRefusedWithAnId) {
  EXPECT_EQ(id_of("not JSON"), "KV2001");
  EXPECT_EQ(id_of(""), "KV2001");
  EXPECT_EQ(id_of("[]"), "KV2002");
  EXPECT_EQ(id_of(with("kvconform-case-1", "kvconform-case-9")), "KV2004");
  EXPECT_EQ(id_of(with("\"index\": 7", "\"index\": -7")), "KV2002");
  EXPECT_EQ(id_of(with("\"index\": 7", "\"index\": 7, \"extra\": 1")), "KV2002");
  EXPECT_EQ(id_of(with("\"call\": \"save\"", "\"call\": \"forget\"")), "KV2002");
  EXPECT_EQ(id_of(with("[1, 2], []", "[1, 2.5], []")), "KV2002");
  EXPECT_EQ(id_of(with("[1, 2], []", "[1, 99999999999], []")), "KV2002");
  EXPECT_EQ(id_of(with("\"BF16\"", "\"F8\"")), "KV2002");
  EXPECT_EQ(id_of(with("\"batch\": 2", "\"batch\": 0")), "KV2002");
}

TEST(CaseFile, SessionsMustExistBeforeTheyAreUsed) {
  EXPECT_EQ(id_of(with("\"session\": 1, \"from\": 0", "\"session\": 1, \"from\": 8")), "KV2002");
  EXPECT_EQ(id_of(with("\"session\": 2, \"from\": 0", "\"session\": 2, \"from\": 1")), "KV2002");
  EXPECT_EQ(id_of(with("\"session\": 2, \"from\": 0", "\"session\": 0, \"from\": 0")), "KV2002");
  EXPECT_EQ(
      id_of(with("{\"call\": \"close\", \"session\": 1}", "{\"call\": \"close\", \"session\": 4}")),
      "KV2002");
}

TEST(CaseFile, DeepNestingIsRefusedBeforeAnythingRecurses) {
  const std::string deep(100000, '[');
  EXPECT_EQ(id_of(with("{\"model_type\": \"gemma3n_text\"}", "{\"a\": " + deep)), "KV2002");
}

TEST(CaseFile, NoDamagedFileCrashesTheReader) {
  RandomStream random(stream_key(1, "damage"));
  for (int i = 0; i < 2000; ++i) {
    std::string text = kText;
    for (int edits = random.between(1, 4); edits > 0; --edits) {
      const auto at = random.below(text.size());
      if (random.chance(30)) {
        text.erase(at, random.below(20));
      } else {
        text[at] = static_cast<char>(random.below(256));
      }
    }
    try {
      parse_case(text, "damaged");
    } catch (const Error&) {
    }
  }
}

TEST(CaseFile, AMissingFileIsNamed) {
  try {
    read_case("/nonexistent/case.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), "KV2003");
    EXPECT_NE(e.problem().find("/nonexistent/case.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvconform
