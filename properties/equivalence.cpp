// Oracles, and judging a case by one.
#include "properties/equivalence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "properties/requirements.h"
#include "properties/shrinking.h"
#include "properties/transcript_comparison.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

/// A session of one row, fed up to each of `ends` in turn.
Output feed_in_chunks(const LoadedModel& model, const TokenHistory& history,
                      const std::vector<int>& ends, bool trace) {
  const int length = static_cast<int>(history.tokens.size());
  const auto session = model.subject().open(model.id(), 1, length, history.start);
  Output all;
  int fed = 0;
  for (int end : ends) {
    const std::vector<int> chunk(history.tokens.begin() + fed, history.tokens.begin() + end);
    append(all, model.subject().extend(session, {chunk}, trace));
    fed = end;
  }
  model.subject().close(session);
  return all;
}

void check_oracle(const Output& output, const TokenHistory& history, const ModelConfig& config) {
  const int length = static_cast<int>(history.tokens.size());
  if (output.logits.positions == length && output.logits.vocab == config.vocab_size) return;
  throw SubjectBroken(fmt::format("{} of {} came back for {}",
                                  counted(output.logits.positions, "position"),
                                  counted(output.logits.vocab, "logit"), counted(length, "token")));
}

Verdict refusal(const Case& test_case, const ModelConfig& config, const SubjectInfo& info,
                const SubjectRefusal& e) {
  const int margin = needed_margin(test_case, config);
  const bool rightly = e.kind == SubjectRefusal::Kind::unsupported || margin > info.margin;
  Verdict verdict;
  verdict.kind = rightly ? VerdictKind::refused : VerdictKind::differs;
  verdict.message = rightly ? e.what() : std::string("refused a valid request: ") + e.what();
  return verdict;
}

}  // namespace

LoadedModel::~LoadedModel() {
  try {
    subject_.unload(id_);
  } catch (const std::exception&) {
    // The verdict of the case stands; a subject that cannot unload shows in its next answer.
  }
}

void append(Output& all, const Output& more) {
  all.logits.positions += more.logits.positions;
  all.logits.vocab = more.logits.vocab;
  all.logits.values.insert(all.logits.values.end(), more.logits.values.begin(),
                           more.logits.values.end());
  if (all.trace.empty()) {
    all.trace = more.trace;
    return;
  }
  for (std::size_t i = 0; i < std::min(all.trace.size(), more.trace.size()); ++i) {
    all.trace[i].shape[0] += more.trace[i].shape[0];
    all.trace[i].values.insert(all.trace[i].values.end(), more.trace[i].values.begin(),
                               more.trace[i].values.end());
  }
}

bool wants_traces(const Judgement& judgement) {
  return judgement.traces && judgement.subject.info().capabilities.count("trace") > 0;
}

Output ask_score(const LoadedModel& model, const TokenHistory& history, bool trace) {
  return model.subject().score(model.id(), {history.tokens}, trace);
}

Output ask_one_shot(const LoadedModel& model, const TokenHistory& history, bool trace) {
  const int length = static_cast<int>(history.tokens.size());
  const auto session = model.subject().open(model.id(), 1, length, history.start);
  Output output = model.subject().extend(session, {history.tokens}, trace);
  model.subject().close(session);
  return output;
}

Output ask_token_by_token(const LoadedModel& model, const TokenHistory& history, bool trace) {
  std::vector<int> ends(history.tokens.size());
  std::iota(ends.begin(), ends.end(), 1);
  return feed_in_chunks(model, history, ends, trace);
}

Output ask_same_chunks(const LoadedModel& model, const TokenHistory& history, bool trace) {
  return feed_in_chunks(model, history, history.ends, trace);
}

Output ask_same_chunks_on_fresh_load(const LoadedModel& model, const TokenHistory& history,
                                     bool trace) {
  const LoadedModel fresh(model.subject(), model.source());
  return ask_same_chunks(fresh, history, trace);
}

Verdict guarded(const Case& test_case, const Judgement& judgement,
                const std::function<Verdict(const ModelConfig&)>& body) {
  const SubjectInfo& info = judgement.subject.info();
  const ModelConfig config = config_of(test_case.model);
  const std::string missing = missing_for(test_case, config, info);
  if (!missing.empty()) {
    return {VerdictKind::not_applicable, "the subject lacks " + missing, std::nullopt, 0, ""};
  }
  const bool caches = std::any_of(test_case.calls.begin(), test_case.calls.end(),
                                  [](const Call& c) { return c.kind == Call::Kind::open; });
  if (config.bidirectional_all && caches) {
    return {VerdictKind::not_applicable,
            "the model has no cache: use_bidirectional_attention is \"all\"", std::nullopt, 0, ""};
  }
  try {
    return body(config);
  } catch (const SubjectRefusal& e) {
    return refusal(test_case, config, info, e);
  } catch (const SubjectUnusable&) {
    throw;  // ends the subject's run, not only this case
  } catch (const SubjectBroken& e) {
    return {VerdictKind::broken, e.what(), std::nullopt, 0, ""};
  }
}

Verdict judge_equivalence(const Case& test_case, Judgement& judgement, const Equivalence& how) {
  return guarded(test_case, judgement, [&](const ModelConfig& config) {
    const LoadedModel model(judgement.subject, judgement.model);
    const bool trace = wants_traces(judgement);
    std::optional<LoadedModel> other;
    if (how.against_other) other.emplace(judgement.against, judgement.model);
    const bool causal = !config.bidirectional_all;
    OracleAnswers known(causal, how.chunks);
    const auto ask_all = [&] {
      for (TokenHistory& history : longest_histories(test_case.calls, causal, how.chunks)) {
        Output output = how.ask(other ? *other : model, history, trace);
        check_oracle(output, history, config);
        known.add(std::move(history), std::move(output));
      }
    };
    if (how.between) ask_all(), how.between();
    const Transcript seen =
        run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, trace);
    if (!how.between) ask_all();
    TranscriptComparison comparison = comparison_within(
        test_case, judgement, config, [&](const At& at) { return known.find(at); });
    if (how.against_other) comparison.bits = false, comparison.widening = 1;
    Verdict verdict = comparison.judge(seen);
    if (verdict.kind == VerdictKind::differs && judgement.traces && !how.against_other) {
      const RightWay right = right_way(test_case, judgement, config, seen, known.transcript());
      verdict.departs = describe_ways(right, how.names, test_case.against);
      if (how.explain) how.explain(right, verdict);
    }
    return verdict;
  });
}

}  // namespace kvconform
