// The reader of expected arrays: right on a file written by hand, and intolerant of every damage.
#include "golden/expected_arrays.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

class ExpectedArraysTest : public testing::Test {
 protected:
  fs::path file_ = fs::path(testing::TempDir()) /
                   (std::string("expected-arrays-") +
                    testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors");

  ~ExpectedArraysTest() override { fs::remove(file_); }

  void write_raw(const std::string& bytes) { std::ofstream(file_, std::ios::binary) << bytes; }
  void write(const std::string& header, const std::string& data) {
    write_raw(bytes_of<std::uint64_t>({header.size()}) + header + data);
  }
  void expect_refused(const std::string& part_of_message) {
    try {
      read_expected_arrays(file_);
      FAIL() << "was read";
    } catch (const Error& e) {
      EXPECT_EQ(e.id(), "KV3003");
      EXPECT_NE(std::string(e.what()).find(part_of_message), std::string::npos) << e.what();
    }
  }
};

const char* const one_float = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

TEST_F(ExpectedArraysTest, AreReadInAllThreeFormats) {
  write(R"({"__metadata__":{"format":"pt"},
            "i":{"dtype":"I64","shape":[2],"data_offsets":[16,32]},
            "f":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
            "d":{"dtype":"F64","shape":[],"data_offsets":[8,16]}})",
        bytes_of<float>({0.5f, -2.0f}) + bytes_of<double>({0.1}) + bytes_of<std::int64_t>({7, -9}));
  const ExpectedArrays arrays = read_expected_arrays(file_);
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays.at("f").values, (std::vector<double>{0.5, -2.0}));
  EXPECT_EQ(arrays.at("f").shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(arrays.at("d").values, std::vector<double>{0.1});
  EXPECT_EQ(arrays.at("i").values, (std::vector<double>{7, -9}));
  EXPECT_THROW(expected_array(arrays, "z", file_), Error);
}

TEST_F(ExpectedArraysTest, AreRefusedWhenTheFileIsMissingOrCutAnywhere) {
  expect_refused("cannot be opened");
  write(one_float, bytes_of<float>({1.0f}));
  std::ifstream in(file_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSERT_EQ(read_expected_arrays(file_).size(), 1u);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_raw(whole.substr(0, size));
    EXPECT_THROW(read_expected_arrays(file_), Error) << size;
  }
}

TEST_F(ExpectedArraysTest, AreRefusedWhenValuesAreNotFinite) {
  write(one_float, bytes_of<float>({std::numeric_limits<float>::quiet_NaN()}));
  expect_refused("nan");
  write(one_float, bytes_of<float>({-std::numeric_limits<float>::infinity()}));
  expect_refused("-inf");
}

TEST_F(ExpectedArraysTest, AreRefusedWhenADoubleCannotHoldAnInteger) {
  write(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
        bytes_of<std::int64_t>({std::numeric_limits<std::int64_t>::max()}));
  expect_refused("holds the value");
}

TEST_F(ExpectedArraysTest, AreRefusedInOtherFormats) {
  write(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", "1234");
  expect_refused("BF16");
}

TEST_F(ExpectedArraysTest, AreRefusedWithHolesOverlapsAndRemainders) {
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", bytes_of<float>({1, 2}));
  expect_refused("expected at byte 0, found at 4");
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
            "b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
        bytes_of<float>({1}));
  expect_refused("expected at byte 4, found at 0");
  write(one_float, bytes_of<float>({1, 2}));
  expect_refused("end at byte 4, the data at 8");
}

TEST_F(ExpectedArraysTest, AreRefusedWhenShapeAndSizeDisagree) {
  write(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", bytes_of<float>({1}));
  expect_refused("data_offsets [0, 4] for 2 values");
  write(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", bytes_of<float>({1}));
  expect_refused("size -1");
  write(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
        bytes_of<float>({1}));
  expect_refused("size 4294967296");
}

TEST_F(ExpectedArraysTest, AreRefusedWhenANameOccursTwice) {
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
            "a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
        bytes_of<float>({1}));
  expect_refused("occurs twice");
}

TEST_F(ExpectedArraysTest, AreRefusedWhenTheHeaderIsNoProperJson) {
  write("[]", "");
  expect_refused("not a JSON object");
  write("{", "");
  expect_refused("not valid JSON");
  write(R"({"a":{"dtype":"F32","shape":"wide","data_offsets":[0,4]}})", bytes_of<float>({1}));
  expect_refused("not described properly");
}

}  // namespace
}  // namespace kvconform
