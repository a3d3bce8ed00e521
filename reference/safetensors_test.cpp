// Each way in which a safetensors file can be wrong has an id of its own; healthy files come back
// bit by bit. Add a fault as a row of `broken_files`.
#include "reference/safetensors.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "reference/test_files.h"

namespace kvconform {
namespace {

std::string little_endian(std::uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

// A file of this header and `data_bytes` bytes of data 0, 1, 2, ….
std::string file_of(const std::string& header, std::size_t data_bytes = 0) {
  std::string bytes = little_endian(header.size()) + header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":)" + entry(dtype, shape, offsets) + "}";
}

std::string two(const std::string& first, const std::string& second) {
  return R"({"a":)" + first + R"(,"b":)" + second + "}";
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

SafetensorsContent parse(const std::string& bytes) {
  auto copy = std::make_shared<std::string>(bytes);
  return parse_safetensors(reinterpret_cast<const std::byte*>(copy->data()), copy->size(), "test",
                           copy);
}

struct BrokenFile {
  const char* what;
  const char* id;
  std::string bytes;
};

std::vector<BrokenFile> broken_files() {
  const std::string four = entry("F32", "[1]", "[0,4]");
  return {
      {"empty", "KV1203", ""},
      {"seven bytes", "KV1203", std::string(7, '\0')},
      {"header length 0", "KV1204", little_endian(0) + "{}"},
      {"header length above the cap", "KV1204", little_endian(100'000'001) + "{}"},
      {"header length 2^64 - 1", "KV1204", little_endian(~0ULL) + "{}"},
      {"header past the end", "KV1205", little_endian(3) + "{}"},
      {"header cut short", "KV1206", file_of(R"({"a":)")},
      {"text after the header", "KV1206", file_of("{}{}")},
      {"zero byte in the header", "KV1206", file_of(std::string("{}\0", 3))},
      {"invalid UTF-8", "KV1206", file_of("{\"\xff\":1}")},
      {"number that overflows", "KV1206", file_of(one("F32", "[1e999]", "[0,4]"), 4)},
      {"header is a list", "KV1207", file_of("[]")},
      {"header begins with a space", "KV1207", file_of(" {}")},
      {"tensor twice", "KV1208", file_of(R"({"a":)" + four + R"(,"a":)" + four + "}", 4)},
      {"field twice", "KV1208",
       file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)},
      {"metadata twice", "KV1208", file_of(R"({"__metadata__":{},"__metadata__":{}})")},
      {"entry is a number", "KV1209", file_of(R"({"a":7})")},
      {"entry is null", "KV1209", file_of(R"({"a":null})")},
      {"entry is a list", "KV1209", file_of(R"({"a":[]})")},
      {"entry is empty", "KV1209", file_of(R"({"a":{}})")},
      {"entry without offsets", "KV1209", file_of(R"({"a":{"dtype":"F32","shape":[1]}})")},
      {"unknown field", "KV1209",
       file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"stride":[1]}})", 4)},
      {"dtype is a number", "KV1209",
       file_of(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4)},
      {"dtype is a list", "KV1209",
       file_of(R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4)},
      {"shape is a number", "KV1209", file_of(one("F32", "1", "[0,4]"), 4)},
      {"shape is an object", "KV1209", file_of(one("F32", "{}", "[0,4]"), 4)},
      {"shape holds a string", "KV1209", file_of(one("F32", R"(["1"])", "[0,4]"), 4)},
      {"shape holds a list", "KV1209", file_of(one("F32", "[[1]]", "[0,4]"), 4)},
      {"deeply nested lists", "KV1209", file_of(R"({"a":)" + repeated("[", 1'000'000))},
      {"deeply nested objects", "KV1209", file_of(repeated(R"({"a":)", 1'000'000))},
      {"unknown dtype", "KV1210", file_of(one("F31", "[1]", "[0,4]"), 4)},
      {"negative length", "KV1211", file_of(one("F32", "[-1]", "[0,4]"), 4)},
      {"fractional length", "KV1211", file_of(one("F32", "[1.0]", "[0,4]"), 4)},
      {"length beyond 63 bits", "KV1211", file_of(one("F32", "[9223372036854775808]", "[0,4]"), 4)},
      {"shape whose product overflows", "KV1211",
       file_of(one("F32", "[4294967296,4294967296]", "[0,0]"))},
      {"shape that overflows before a zero", "KV1211",
       file_of(one("F32", "[4294967296,4294967296,0]", "[0,0]"))},
      {"shape whose bytes overflow", "KV1211",
       file_of(one("F32", "[4611686018427387904]", "[0,0]"))},
      {"half a byte", "KV1211", file_of(one("F4", "[3]", "[0,2]"), 2)},
      {"negative offset", "KV1212", file_of(one("F32", "[1]", "[-4,0]"), 4)},
      {"fractional offset", "KV1212", file_of(one("F32", "[1]", "[0,4.0]"), 4)},
      {"offset beyond 64 bits", "KV1212",
       file_of(one("F32", "[1]", "[0,18446744073709551620]"), 4)},
      {"offsets in descending order", "KV1212", file_of(one("F32", "[1]", "[4,0]"), 4)},
      {"three offsets", "KV1212", file_of(one("F32", "[1]", "[0,2,4]"), 4)},
      {"no offsets", "KV1212", file_of(one("F32", "[1]", "[]"), 4)},
      {"too few bytes for the shape", "KV1213", file_of(one("F32", "[2]", "[0,4]"), 4)},
      {"too many bytes for the shape", "KV1213", file_of(one("BF16", "[1]", "[0,4]"), 4)},
      {"data cut short", "KV1214", file_of(one("F32", "[2]", "[0,8]"), 7)},
      {"data missing", "KV1214", file_of(one("F32", "[2]", "[0,8]"))},
      {"overlap", "KV1215",
       file_of(two(entry("F32", "[2]", "[0,8]"), entry("F32", "[1]", "[4,8]")), 8)},
      {"same bytes twice", "KV1215", file_of(two(four, four), 4)},
      {"hole", "KV1216", file_of(two(four, entry("F32", "[1]", "[8,12]")), 12)},
      {"hole at the start", "KV1216", file_of(one("F32", "[1]", "[4,8]"), 8)},
      {"empty tensor beyond the data", "KV1214", file_of(one("F32", "[0]", "[8,8]"), 4)},
      {"trailing bytes", "KV1217", file_of(one("F32", "[1]", "[0,4]"), 5)},
      {"data without tensors", "KV1217", file_of("{}", 1)},
      {"metadata is a string", "KV1218", file_of(R"({"__metadata__":"x"})")},
      {"metadata holds a number", "KV1218", file_of(R"({"__metadata__":{"a":1}})")},
      {"metadata holds an object", "KV1218", file_of(R"({"__metadata__":{"a":{}}})")},
  };
}

TEST(Safetensors, EveryKindOfDamageIsRefusedWithItsOwnId) {
  TemporaryFolder folder;
  for (const BrokenFile& broken : broken_files()) {
    EXPECT_EQ(id_of([&] { parse(broken.bytes); }), broken.id) << broken.what;
    write_text(folder / "file", broken.bytes);
    EXPECT_EQ(id_of([&] { read_safetensors(folder / "file"); }), broken.id)
        << broken.what << ", as a file";
  }
}

TEST(Safetensors, AFileCutAtAnyByteIsRefused) {
  const std::string whole =
      file_of(two(entry("F32", "[2]", "[0,8]"), entry("BF16", "[1]", "[8,10]")), 10);
  EXPECT_EQ(parse(whole).table.tensors.size(), 2U);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(id_of([&] { parse(whole.substr(0, size)); }), "none") << size;
}

TEST(Safetensors, MessagesNameFileTensorAndValueAndEscapeControlCharacters) {
  TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) {
    write_text(folder / "model.safetensors", bytes);
    return message_of([&] { read_safetensors(folder / "model.safetensors"); });
  };
  const std::string text = message(file_of(one("F32", "[2,3]", "[0,4]"), 4));
  for (const char* part : {"model.safetensors", "\"a\"", "[2, 3]", "24 bytes", "span 4", "remedy"})
    EXPECT_NE(text.find(part), text.npos) << part << " in " << text;
  const std::string escaped = message(file_of(R"({"\u001b[31m":{}})"));
  EXPECT_EQ(escaped.find('\x1b'), escaped.npos);
  EXPECT_NE(escaped.find("\\x1b"), escaped.npos) << escaped;
  EXPECT_LT(message(file_of("{\"" + std::string(1'000'000, 'x') + "\":{}}")).size(), 1000U);
  EXPECT_LT(message(file_of("{\"a\":\"" + std::string(1'000'000, 'x'))).size(), 1000U);
}

TEST(Safetensors, WhatIsNoReadableFileIsRefusedAndAPipeIsNotWaitedFor) {
  TemporaryFolder folder;
  EXPECT_EQ(id_of([&] { read_safetensors(folder / "absent"); }), "KV1201");
  EXPECT_EQ(id_of([&] { read_safetensors(folder.path()); }), "KV1202");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(id_of([&] { read_safetensors(folder / "pipe"); }), "KV1202");
  write_text(folder / "secret", file_of("{}"));
  ASSERT_EQ(::chmod((folder / "secret").c_str(), 0), 0);
  if (::geteuid() != 0) {  // root reads everything
    EXPECT_EQ(id_of([&] { read_safetensors(folder / "secret"); }), "KV1201");
  }
}

TEST(Safetensors, MisalignedTensorsAreCopiedAndAlignedOnesAreViews) {
  const std::string header =
      R"({"p":)" + entry("U8", "[1]", "[0,1]") + R"(,"x":)" + entry("F32", "[2]", "[1,9]") + "}";
  for (std::size_t pad = 0; pad < 8; ++pad) {
    const SafetensorsContent content = parse(file_of(header + std::string(pad, ' '), 9));
    const TensorView& view = content.table.tensors.at("x");
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 4, 0U);
    for (int i = 0; i < 8; ++i) ASSERT_EQ(static_cast<int>(view.data[i]), i + 1);
  }
  TemporaryFolder folder;
  const std::string even = one("F32", "[2]", "[0,8]");
  write_text(folder / "even", file_of(even + std::string((8 - even.size() % 8) % 8, ' '), 8));
  EXPECT_EQ(read_safetensors(folder / "even").table.keep_alive.size(), 1U) << "the mapping alone";
}

TEST(Safetensors, OtherFormatsAreListedWithTheirBytes) {
  const SafetensorsContent content =
      parse(file_of(two(entry("I64", "[1]", "[0,8]"), entry("F8_E4M3", "[2]", "[8,10]")), 10));
  EXPECT_TRUE(content.table.tensors.empty());
  EXPECT_EQ(content.other_dtypes, (std::vector<std::string>{"a (I64)", "b (F8_E4M3)"}));
  EXPECT_EQ(content.others.at("a").bytes, 8U);
  EXPECT_EQ(static_cast<int>(content.others.at("b").data[1]), 9);
}

TEST(Safetensors, EmptyTensorsAndScalarsAreTensors) {
  const SafetensorsContent content =
      parse(file_of(two(entry("F32", "[0,7]", "[0,0]"), entry("F32", "[]", "[0,4]")), 4));
  EXPECT_TRUE(content.table.tensors.at("a"));
  EXPECT_EQ(content.table.tensors.at("a").count(), 0);
  EXPECT_EQ(content.table.tensors.at("b").count(), 1);
}

TensorTable mixed_table() {
  TensorTable table;
  std::memset(table.add("odd", Dtype::bf16, {3}), 0x11, 6);
  std::memset(table.add("wide", Dtype::f32, {1, 2}), 0x22, 8);
  std::memset(table.add("half", Dtype::f16, {}), 0x33, 2);
  table.add("nothing", Dtype::f32, {0});
  return table;
}

TEST(Safetensors, WhatIsWrittenIsReadBackBitByBitWithoutCopies) {
  TemporaryFolder folder;
  const TensorTable table = mixed_table();
  write_safetensors(folder / "m.safetensors", table, {{"format", "pt"}});
  const SafetensorsContent content = read_safetensors(folder / "m.safetensors");
  EXPECT_EQ(content.metadata.at("format"), "pt");
  EXPECT_EQ(content.table.keep_alive.size(), 1U);
  ASSERT_EQ(content.table.tensors.size(), 4U);
  for (const auto& [name, view] : table.tensors) {
    const TensorView& read = content.table.tensors.at(name);
    EXPECT_EQ(read.dtype, view.dtype);
    EXPECT_EQ(read.shape, view.shape);
    EXPECT_EQ(std::memcmp(read.data, view.data,
                          static_cast<std::size_t>(view.count() * byte_size(view.dtype))),
              0);
  }
}

TEST(Safetensors, AFailedWriteKeepsTheOldFileAndLeavesNoOther) {
  TemporaryFolder folder;
  write_text(folder / "m.safetensors", "old");
  TensorTable table;
  table.add("large", Dtype::f32, {1 << 18});
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100'000, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);  // then write() fails with EFBIG instead
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string id = id_of([&] { write_safetensors(folder / "m.safetensors", table); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(id, "KV1220");
  EXPECT_EQ(read_text(folder / "m.safetensors"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(write_safetensors(folder / "no/such/m.safetensors", table), HarnessError);
}

TEST(Safetensors, TensorsLargerThanAnyFileAreNotWritten) {
  TemporaryFolder folder;
  TensorTable table;
  table.tensors["huge"] = TensorView{Dtype::f32, {1LL << 40, 1LL << 40}, nullptr};
  EXPECT_EQ(id_of([&] { write_safetensors(folder / "m", table); }), "KV1221");
  EXPECT_TRUE(folder.is_empty());
}

}  // namespace
}  // namespace kvconform
