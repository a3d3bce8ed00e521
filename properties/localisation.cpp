// Localisation is agreement, judged with traces.
#include "properties/localisation.h"

#include "properties/equivalence.h"

namespace kvconform {

std::optional<Difference> locate(const Case& test_case, Judgement& judgement) {
  if (!wants_traces(judgement)) return std::nullopt;
  const Verdict verdict =
      judge_equivalence(test_case, judgement, {ask_score, /*against_other=*/true});
  return verdict.kind == VerdictKind::differs ? verdict.first_difference : std::nullopt;
}

}  // namespace kvconform
