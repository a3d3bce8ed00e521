// Keys, generators and shrinkables of cases.
#include "properties/generators/case_generator.h"

#include "properties/generators/shrinkable_case.h"
#include "properties/shrinking.h"
#include "reference/random.h"

namespace kvconform {
namespace {

rc::Gen<Case> case_gen(const DrawModel& draw_model, const DrawCalls& draw_calls) {
  return [draw_model, draw_calls](const rc::Random& random, int) {
    Draw draw(random);
    Case test_case;
    test_case.model = draw_model(draw);
    test_case.calls = draw_calls(draw, test_case.model);
    return shrinkable_case(test_case);
  };
}

}  // namespace

rc::Shrinkable<Case> shrinkable_case(const Case& test_case) {
  return rc::shrinkable::shrinkRecur(
      Case(test_case), [](const Case& c) { return rc::seq::fromContainer(simpler_cases(c)); });
}

Case case_at(const char* property, std::uint64_t seed, std::uint64_t index,
             const DrawModel& draw_model, const DrawCalls& draw_calls) {
  const std::uint64_t key = mix64(stream_key(seed, property) + index);
  Case test_case = case_gen(draw_model, draw_calls)(rc::Random(key), rc::kNominalSize).value();
  test_case.property = property;
  test_case.seed = seed;
  test_case.index = index;
  return test_case;
}

}  // namespace kvconform
