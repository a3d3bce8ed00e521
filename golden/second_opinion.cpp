// Recomputing every row's whole sequence, each sequence once.
#include "golden/second_opinion.h"

#include <algorithm>
#include <map>

#include "golden/oracle_comparison.h"
#include "properties/history.h"
#include "reference/witness.h"

namespace kvconform {
namespace {

Logits rows_from(const Logits& logits, int first, int count) {
  const auto begin = logits.values.begin() + std::ptrdiff_t(first) * logits.vocab;
  return {count, logits.vocab, {begin, begin + std::ptrdiff_t(count) * logits.vocab}};
}

}  // namespace

double distance_from_witness(const Recipe& recipe, const Checkpoint& checkpoint,
                             const CallLogits& logits) {
  std::map<std::vector<int>, Logits> sequences;
  RowLedger ledger;
  double worst = 0;
  for (std::size_t call = 0; call < recipe.calls.size(); ++call) {
    int at = 0;
    for (const RowSpan& span : ledger.apply(recipe.calls[call])) {
      if (span.count() == 0) continue;
      auto known = sequences.find(span.history.tokens);
      if (known == sequences.end()) {
        known =
            sequences.emplace(span.history.tokens, witness_logits(checkpoint, span.history.tokens))
                .first;
      }
      const Logits expected = rows_from(known->second, span.first, span.count());
      worst = std::max(worst, worst_row(rows_from(logits[call], at, span.count()), expected));
      at += span.count();
    }
  }
  return worst;
}

}  // namespace kvconform
