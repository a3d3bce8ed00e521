// The ledger knows which tokens stand behind each position, whatever happened to the row.
#include "properties/history.h"

#include <gtest/gtest.h>

#include "reference/error.h"

namespace kvconform {
namespace {

using Kind = Call::Kind;

Call open(int batch, int start = 0) {
  Call call;
  call.kind = Kind::open;
  call.batch = batch;
  call.start = start;
  return call;
}
Call extend(int session, TokenRows tokens) {
  Call call;
  call.session = session;
  call.tokens = std::move(tokens);
  return call;
}
Call with_numbers(Kind kind, std::vector<int> numbers) {
  Call call;
  call.kind = kind;
  call.numbers = std::move(numbers);
  return call;
}
Call derived(Kind kind, int session, int from) {
  Call call;
  call.kind = kind;
  call.session = session;
  call.from = from;
  return call;
}

std::vector<RowSpan> last_spans(const std::vector<Call>& calls) {
  RowLedger ledger;
  std::vector<RowSpan> spans;
  for (const Call& call : calls) spans = ledger.apply(call);
  return spans;
}

TEST(RowLedger, RewindThenExtendContinuesFromTheShorterRow) {
  const auto spans = last_spans({open(2), extend(0, {{1, 2, 3}, {4}}),
                                 with_numbers(Kind::rewind, {1, 1}), extend(0, {{9}, {}})});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].history.tokens, (std::vector<int>{1, 9}));
  EXPECT_EQ(spans[0].first, 1);
  EXPECT_EQ(spans[1].count(), 0);
}

TEST(RowLedger, ReorderCopiesRowsAndMayNameOneTwice) {
  const auto spans = last_spans(
      {open(2), extend(0, {{1}, {2}}), with_numbers(Kind::reorder, {1, 1}), extend(0, {{5}, {6}})});
  EXPECT_EQ(spans[0].history.tokens, (std::vector<int>{2, 5}));
  EXPECT_EQ(spans[1].history.tokens, (std::vector<int>{2, 6}));
}

TEST(RowLedger, AForkIsIndependentOfWhatItCameFrom) {
  const auto spans = last_spans(
      {open(1), extend(0, {{1}}), derived(Kind::fork, 1, 0), extend(0, {{2}}), extend(1, {{3}})});
  EXPECT_EQ(spans[0].history.tokens, (std::vector<int>{1, 3}));
}

TEST(RowLedger, ARestoredSessionGoesOnFromWhenItWasSaved) {
  Call save;
  save.kind = Kind::save;
  const auto spans = last_spans({open(1, 7), extend(0, {{1}}), save, extend(0, {{2}}),
                                 derived(Kind::restore, 1, 0), extend(1, {{3}})});
  EXPECT_EQ(spans[0].history, (TokenHistory{{1, 3}, 7}));
}

TEST(RowLedger, CallsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(last_spans({open(1), with_numbers(Kind::rewind, {1})}), Error);
  EXPECT_THROW(last_spans({open(1), with_numbers(Kind::reorder, {1})}), Error);
  EXPECT_THROW(last_spans({open(2), extend(0, {{1}})}), Error);
}

TEST(LongestHistories, BeginningsOfLongerOnesAreLeftOut) {
  const std::vector<Call> calls = {open(1), extend(0, {{1}}), extend(0, {{2, 3}}),
                                   with_numbers(Kind::rewind, {1}), extend(0, {{4}})};
  const auto longest = longest_histories(calls);
  ASSERT_EQ(longest.size(), 2u);
  EXPECT_EQ(longest[0].tokens, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(longest[1].tokens, (std::vector<int>{1, 4}));
  EXPECT_EQ(longest_histories(calls, /*causal=*/false).size(), 3u);
}

TEST(LongestHistories, WhereChunksMatterTheSameTokensInOtherCallsAreAnotherHistory) {
  std::vector<Call> calls = {open(1),         extend(0, {{1}}),    extend(0, {{2, 3}}),
                             open(1),         extend(1, {{1, 2}}), open(1),
                             extend(2, {{1}})};
  calls[3].session = 1;
  calls[5].session = 2;
  EXPECT_EQ(longest_histories(calls).size(), 1u);
  const auto longest = longest_histories(calls, true, Chunks::same);
  ASSERT_EQ(longest.size(), 2u);  // session 2 came as session 0 began
  EXPECT_EQ(longest[0].ends, (std::vector<int>{1, 3}));
  EXPECT_EQ(longest[1].ends, (std::vector<int>{2}));
}

TEST(TokenHistory, TheChunksOfARowAreThoseOfTheTokensItKept) {
  TokenHistory row;
  row.take({1, 2, 3});
  row.take({});
  row.take({4, 5, 6, 7});
  EXPECT_EQ(row.ends, (std::vector<int>{3, 7}));
  row.cut(5);
  row.take({8});
  EXPECT_EQ(row.tokens, (std::vector<int>{1, 2, 3, 4, 5, 8}));
  EXPECT_EQ(row.ends, (std::vector<int>{3, 5, 6}));
  row.cut(3);
  EXPECT_EQ(row.ends, (std::vector<int>{3}));
  row.cut(0);
  EXPECT_EQ(row, (TokenHistory{}));
  EXPECT_TRUE(row.ends.empty());
}

}  // namespace
}  // namespace kvconform
