// Replies are taken only as the protocol has them; the words for those that are not name the field
// and its value.
#include "properties/subjects/protocol_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace kvconform {
namespace {

using nlohmann::json;
using testing::HasSubstr;

template <class Body>
std::string violation_of(Body body) {
  try {
    body();
  } catch (const ProtocolViolation& e) {
    return e.what();
  }
  return "none";
}

json hello() {
  return {{"ok", true},         {"name", "n"},
          {"version", "1"},     {"families", {"gemma3n_text"}},
          {"dtype", "float32"}, {"capabilities", {"score", "cache"}}};
}

TEST(ProtocolMessages, AHelloIsReadWithItsDefaults) {
  const SubjectInfo info = parse_hello(hello());
  EXPECT_EQ(info.name, "n");
  EXPECT_EQ(info.margin, 0);
  EXPECT_EQ(info.granularity, 1);
  EXPECT_EQ(info.capabilities, (std::set<std::string>{"score", "cache"}));
  EXPECT_FALSE(info.bit_stable);
  json promising = hello();
  promising["bit_stable"] = true;
  EXPECT_TRUE(parse_hello(promising).bit_stable);
}

TEST(ProtocolMessages, EveryWrongFieldOfAHelloIsNamed) {
  const std::vector<std::tuple<const char*, json, const char*>> wrong = {
      {"name", 1, "\"name\" with 1, not a string"},
      {"version", nullptr, "\"version\" with null"},
      {"families", "gemma3n_text", "\"families\" with \"gemma3n_text\", not a list"},
      {"families", {1}, "\"families\" with 1"},
      {"families",
       {"gemma4_text", "llama"},
       "\"families\" with \"llama\", not some of gemma3n_text, gemma4_text; name those that"},
      {"dtype", "float31", "\"dtype\" with \"float31\", not one of"},
      {"capabilities",
       {"scores"},
       "\"capabilities\" with \"scores\", not some of batch, cache, cache_report"},
      {"margin", -1, "\"margin\" with -1, not an integer from 0"},
      {"margin", 1.5, "\"margin\" with 1.5"},
      {"bit_stable", 1, "\"bit_stable\" with 1, not true or false"},
      {"granularity", 0, "\"granularity\" with 0, not an integer from 1"},
      {"granularity", 18446744073709551615ULL, "\"granularity\" with 18446744073709551615"}};
  for (const auto& [field, value, words] : wrong) {
    json reply = hello();
    reply[field] = value;
    EXPECT_THAT(violation_of([&] { parse_hello(reply); }), HasSubstr(words));
  }
  for (const char* field : {"name", "version", "families", "dtype", "capabilities"}) {
    json reply = hello();
    reply.erase(field);
    EXPECT_THAT(violation_of([&] { parse_hello(reply); }), HasSubstr(field));
  }
}

TEST(ProtocolMessages, WhatIsNoMessageIsShownCutAndPrintable) {
  EXPECT_THAT(violation_of([] { parse_reply("hello"); }), HasSubstr("is not a message: \"hello\""));
  EXPECT_THAT(violation_of([] { parse_reply("[1]"); }), HasSubstr("is not a message"));
  EXPECT_THAT(violation_of([] { parse_reply(""); }), HasSubstr("is not a message"));
  EXPECT_THAT(violation_of([] { parse_reply("{}"); }), HasSubstr("neither"));
  EXPECT_THAT(violation_of([] { parse_reply("{\"ok\": false}"); }), HasSubstr("neither"));
  const std::string shown = violation_of([] { parse_reply(std::string(5000, 'x')); });
  EXPECT_THAT(shown, HasSubstr(std::string(200, 'x') + "…"));
  EXPECT_LT(shown.size(), 300u);
  EXPECT_EQ(printable("a\nb\x01\xff é", 100), "a | b\\x01\\xff é");
}

TEST(ProtocolMessages, DeepNestingIsNoCrash) {
  EXPECT_THAT(violation_of([] { parse_reply(std::string(1000000, '[')); }),
              HasSubstr("is not a message"));
}

TEST(ProtocolMessages, ErrorsHaveAKindAndAMessage) {
  const auto error = [](const json& value) {
    return violation_of([&] { parse_error({{"error", value}}); });
  };
  EXPECT_EQ(error({{"kind", "invalid"}, {"message", "m"}}), "none");
  EXPECT_THAT(error("x"), HasSubstr("\"error\" with \"x\""));
  EXPECT_THAT(error({{"kind", "sad"}, {"message", "m"}}), HasSubstr("\"kind\" with \"sad\""));
  EXPECT_THAT(error({{"kind", "invalid"}}), HasSubstr("lacks the field \"message\""));
  const json told = {
      {"kind", "failed"},
      {"message", "Traceback (most recent call last):\n  File \"e.py\"\nKeyError: 7"}};
  EXPECT_EQ(parse_error({{"error", told}}).message, "KeyError: 7; in File \"e.py\"");
}

TEST(ProtocolMessages, APayloadHasTheExpectedSizeOrIsNamedWithBothNumbers) {
  const json traced = {{"trace", {{{"name", "embedding"}, {"shape", {2, 3}}}}}};
  const PayloadLayout layout = payload_layout(traced, 2, 5, true);
  EXPECT_EQ(layout.bytes(), 4 * (2 * 5 + 2 * 3));
  EXPECT_EQ(payload_layout(json::object(), 2, 5, false).bytes(), 40);
  EXPECT_EQ(violation_of([] { check_payload_size({{"payload", 40}}, 40); }), "none");
  EXPECT_EQ(violation_of([] { check_payload_size(json::object(), 0); }), "none");
  EXPECT_THAT(violation_of([] {
                check_payload_size({{"payload", 99999999}}, 40);
              }),
              HasSubstr("99999999 bytes, expected 40"));
  EXPECT_THAT(violation_of([] { check_payload_size(json::object(), 40); }),
              HasSubstr("0 bytes, expected 40"));
  EXPECT_THAT(violation_of([] { check_payload_size({{"payload", -4}}, 40); }), HasSubstr("-4"));
}

TEST(ProtocolMessages, TraceArraysOfImpossibleShapesAreRefused) {
  const auto shape = [](const json& value) {
    return violation_of([&] {
      payload_layout({{"trace", {{{"name", "x"}, {"shape", value}}}}}, 2, 5, true);
    });
  };
  EXPECT_EQ(shape({2, 0}), "none");
  EXPECT_THAT(shape({3, 1}), HasSubstr("not one entry for each of 2 positions"));
  EXPECT_THAT(shape(json::array()), HasSubstr("not one entry"));
  EXPECT_THAT(shape({2, -1}), HasSubstr("-1"));
  EXPECT_THAT(shape({2, 2000000000, 2000000000}), HasSubstr("not the shape of a trace array"));
  EXPECT_THAT(violation_of([] { payload_layout(json::object(), 2, 5, true); }),
              HasSubstr("lacks the field \"trace\""));
}

TEST(ProtocolMessages, NumbersAreLittleEndianBinary32) {
  const std::string payload("\x00\x00\x80\x3f\x00\x00\x00\x80\x00\x00\xc0\x7f", 12);
  const Output output = decode_payload(payload, {1, 2, {{"t", {1, 1}, {}}}});
  EXPECT_EQ(output.logits.values, (std::vector<double>{1.0, -0.0}));
  EXPECT_TRUE(std::signbit(output.logits.values[1]));
  ASSERT_EQ(output.trace.size(), 1u);
  EXPECT_TRUE(std::isnan(output.trace[0].values.at(0)));
}

TEST(ProtocolMessages, ACacheReportFitsItsSession) {
  const json layer = {
      {"layer", 0}, {"role", "independent"}, {"owner", 0}, {"positions", 3}, {"bytes", 96}};
  const json good = {{"lengths", {3}}, {"layers", {layer}}};
  EXPECT_EQ(parse_cache(good, 1, 1).layers.at(0).bytes, 96);
  EXPECT_THAT(violation_of([&] { parse_cache(good, 2, 1); }), HasSubstr("1 length for 2 rows"));
  EXPECT_THAT(violation_of([&] { parse_cache(good, 1, 2); }), HasSubstr("reports 1 layer of 2"));
  const std::vector<std::pair<const char*, json>> wrong = {
      {"layer", 1}, {"role", "boss"}, {"owner", 1}, {"positions", -1}, {"bytes", "96"}};
  for (const auto& [field, value] : wrong) {
    json bad = good;
    bad["layers"][0][field] = value;
    EXPECT_THAT(violation_of([&] { parse_cache(bad, 1, 1); }), HasSubstr(field));
  }
}

}  // namespace
}  // namespace kvconform
