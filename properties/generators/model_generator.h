// Random models of both families, valid by construction and small enough that a case costs
// milliseconds. They reach what real faults needed ("Inputs that reach nearly all of them" in the
// list of faults): tiny windows, every kind of sharing, uneven head ratios, two head sizes, K = V,
// partial rotary, experts, sparsity, soft caps that bite, dead tensors.
#pragma once

#include "properties/generators/draw.h"
#include "properties/property.h"

namespace kvconform {

/// A norm over one or two numbers is nearly their sign: such models are honest, but so often within
/// the noise of another answer that they would decide little. Neither drawn nor shrunk to.
inline constexpr int kLeastNormed = 3;

/// What a property wants of its models beyond a valid draw.
struct ModelWishes {
  bool consumers = false;     ///< at least one layer reads another's keys and values
  bool sliding = false;       ///< at least one sliding layer, whose window prompts can cross
  bool dead_tensors = true;   ///< may carry projections of consumers
  bool reduced_dtype = true;  ///< may store weights in bfloat16 or float16
  bool experts = true;
  bool gemma3n_only = false;
  bool bidirectional = false;  ///< may see later tokens: such a model can only be scored
};

/// One model in twenty of CaseSize::emulated gets prompts of more than 64 tokens: whoever draws
/// those is not the one who draws the model, so it is read off the recipe.
bool has_long_prompts(const WeightsRecipe& weights);

ModelSpec draw_model(Draw& draw, CaseSize size, const ModelWishes& wishes);

}  // namespace kvconform
