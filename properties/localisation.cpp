// Localisation is agreement, judged with traces.
#include "properties/localisation.h"

#include <nlohmann/json.hpp>

#include "properties/equivalence.h"
#include "properties/yardstick.h"

namespace kvconform {

void look_closer(const std::function<void()>& look) {
  try {
    look();
  } catch (const SubjectRefusal&) {
  } catch (const SubjectBroken&) {  // one that cannot be used any more shows in the next case
  }
}

std::optional<Difference> locate(const Case& test_case, Judgement& judgement) {
  if (!wants_traces(judgement)) return std::nullopt;
  Verdict verdict;
  look_closer([&] {
    verdict =
        judge_equivalence(test_case, judgement, {ask_score, Chunks::any, /*against_other=*/true});
  });
  return verdict.kind == VerdictKind::differs ? verdict.first_difference : std::nullopt;
}

std::optional<Difference> locate_in(const ModelSource& model, const Case& test_case,
                                    Judgement& judgement) {
  if (!wants_traces(judgement)) return std::nullopt;
  Case of_model = test_case;
  of_model.model.folder.clear();
  of_model.model.config_text = model.text_config().dump();
  Yardstick yardstick(model.checkpoint(), judgement.subject.info().dtype);
  Judgement judged{model, judgement.subject, judgement.against, yardstick, judgement.traces};
  return locate(of_model, judged);
}

}  // namespace kvconform
