// Both ways, each by budget, against what the other implementation gives without a cache.
#include "properties/two_ways.h"

#include <fmt/format.h>

#include "properties/case_judge.h"
#include "properties/equivalence.h"
#include "properties/localisation.h"

namespace kvconform {

RightWay right_way(const Case& test_case, Judgement& judgement, const ModelConfig& config,
                   const Transcript& called, const Transcript& asked) {
  RightWay right = RightWay::unknown;
  look_closer([&] {
    const LoadedModel other(judgement.against, judgement.model);
    const bool causal = !config.bidirectional_all;
    OracleAnswers known(causal);
    for (TokenHistory& history : longest_histories(test_case.calls, causal)) {
      Output output = ask_score(other, history, false);
      known.add(std::move(history), std::move(output));
    }
    Judgement of_logits{judgement.model, judgement.subject, judgement.against, judgement.yardstick,
                        /*traces=*/false};
    const TranscriptComparison against{
        test_case,      of_logits,
        config,         /*bits=*/false,
        /*widening=*/1, [&](const At& at) { return known.find(at); }};
    const VerdictKind of_called = against.judge(called).kind, of_asked = against.judge(asked).kind;
    if (!was_compared(of_called) || !was_compared(of_asked)) return;
    const bool called_right = of_called == VerdictKind::conforms;
    const bool asked_right = of_asked == VerdictKind::conforms;
    right = called_right ? (asked_right ? RightWay::both : RightWay::called)
                         : (asked_right ? RightWay::asked : RightWay::neither);
  });
  return right;
}

std::string describe_ways(RightWay right, const WayNames& names, const std::string& against) {
  const auto one = [&](const std::string& good, const std::string& bad) {
    return fmt::format("{} agrees with {}, {} does not", good, against, bad);
  };
  switch (right) {
    case RightWay::called:
      return one(names.called, names.asked);
    case RightWay::asked:
      return one(names.asked, names.called);
    case RightWay::neither:
      return fmt::format("neither {} nor {} agrees with {}", names.called, names.asked, against);
    case RightWay::both:
      return fmt::format("both are within the error budget of {}", against);
    case RightWay::unknown:
      break;
  }
  return "";
}

}  // namespace kvconform
