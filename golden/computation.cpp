// Running a recipe's calls on a subject.
#include "golden/computation.h"

#include <fmt/format.h>

#include "golden/sha256.h"
#include "properties/history.h"

namespace kvconform {

std::string hash_of(const CallLogits& calls) {
  Sha256 hash;
  for (const Logits& logits : calls) hash.update(logits);
  return hash.hex();
}

Computation compute(const Recipe& recipe, const ModelSource& model, const Numerics& numerics,
                    bool trace) {
  const std::unique_ptr<Subject> subject = numerics.make();
  CallRunner runner(*subject, subject->load(model));
  Computation computation;
  computation.computer = fmt::format("{} {}", subject->info().name, subject->info().version);
  RowLedger ledger;
  const int vocab = model.checkpoint()->config().vocab_size;
  for (const Call& call : recipe.calls) {
    CallRecord record{int(computation.logits.size()), {}, runner.run(call, trace)};
    record.rows = ledger.apply(call);
    if (call.kind == Call::Kind::score || call.kind == Call::Kind::extend) {
      check_shape(record, vocab, trace);
    }
    if (trace) computation.stages.add(record.output.trace);
    computation.logits.push_back(std::move(record.output.logits));
  }
  return computation;
}

std::vector<LogitsRow> logits_rows(const Recipe& recipe) {
  std::vector<LogitsRow> rows;
  RowLedger ledger;
  for (std::size_t call = 0; call < recipe.calls.size(); ++call) {
    const bool cached = recipe.calls[call].kind != Call::Kind::score;
    int index = 0;
    for (const RowSpan& span : ledger.apply(recipe.calls[call])) {
      for (int t = 0; t < span.count(); ++t) {
        const auto begin = span.history.tokens.begin();
        rows.push_back({int(call),
                        index++,
                        span.row,
                        span.first + t,
                        cached,
                        {begin, begin + span.first + t + 1}});
      }
    }
  }
  return rows;
}

}  // namespace kvconform
