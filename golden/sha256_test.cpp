// SHA-256 over logits: against a published vector and against bytes written out by hand.
#include "golden/sha256.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvconform {
namespace {

TEST(Sha256, AgreesWithTheExampleOfFips180) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, HashesLogitsAsLittleEndianFloat32) {
  using namespace std::string_view_literals;
  const Logits logits{1, 2, {1.0, -2.0}};
  EXPECT_EQ(sha256(logits), sha256("\x00\x00\x80\x3f\x00\x00\x00\xc0"sv));
}

TEST(Sha256, TellsZeroFromNegativeZeroAndOneUlp) {
  const Logits zero{1, 1, {0.0}}, negative{1, 1, {-0.0}}, tiny{1, 1, {0x1p-149}};
  EXPECT_NE(sha256(zero), sha256(negative));
  EXPECT_NE(sha256(zero), sha256(tiny));
}

TEST(Sha256, TakesEveryNanForTheSame) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sha256(Logits{1, 1, {nan}}), sha256(Logits{1, 1, {-nan}}));
  EXPECT_NE(sha256(Logits{1, 1, {nan}}), sha256(Logits{1, 1, {0.0}}));
}

TEST(Sha256, OfPiecesIsThatOfTheWhole) {
  Sha256 hash;
  hash.update(Logits{1, 2, {1.0, 2.0}});
  hash.update(Logits{1, 2, {3.0, 4.0}});
  EXPECT_EQ(hash.hex(), sha256(Logits{2, 2, {1.0, 2.0, 3.0, 4.0}}));
}

}  // namespace
}  // namespace kvconform
