// What properties with generated cases share: drawing a model by wishes and calls by a function.
#pragma once

#include "properties/generators/call_generator.h"
#include "properties/generators/case_generator.h"
#include "properties/generators/model_generator.h"
#include "properties/generators/session_life.h"
#include "properties/property.h"

namespace kvconform {

class GeneratedProperty : public Property {
 public:
  Case generate(std::uint64_t seed, std::uint64_t index, CaseSize size) const override {
    return case_at(
        name(), seed, index, [this, size](Draw& draw) { return draw_model_for(draw, size); },
        [this, size](Draw& draw, const ModelSpec& model) {
          return calls(draw, prompt_bounds(model, size));
        });
  }

  Case generate_for(const ModelSpec& model, std::uint64_t seed, std::uint64_t index,
                    CaseSize size) const override {
    return case_at(
        name(), seed, index, [&model](Draw&) { return model; },
        [this, size](Draw& draw, const ModelSpec& spec) {
          return calls(draw, prompt_bounds(spec, size));
        });
  }

 protected:
  virtual ModelSpec draw_model_for(Draw& draw, CaseSize size) const {
    return draw_model(draw, size, wishes());
  }
  virtual ModelWishes wishes() const { return {}; }
  virtual std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const = 0;
};

}  // namespace kvconform
