// The closer look: rows in which a rare turn lies within honest arithmetic are not decided, rows
// that answer in proportion still are.
#include "properties/yardstick.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/case_judge.h"
#include "properties/equivalence.h"
#include "properties/property.h"
#include "properties/subject_registry.h"

namespace kvconform {
namespace {

/// Met at seed 1: the healthy bfloat16 reference was 1.09 budgets from the truth, since rounding
/// had turned the sign of a nearly vanishing vector before a norm, which no probe of the first look
/// did.
constexpr const char* kRareTurn =
    R"({"against":"reference:double","calls":[{"call":"score","tokens":[[30,27,14,29,19,2,20,17,26,17,
18,7,25,6,13,5,8,10,12,17,26],[11,2,15,14,5,28]]}],"format":"kvconform-case-1","index":4,
"model":{"config":{"activation_sparsity_pattern":[0.0,0.0,0.0,0.0,0.0,0.0,0.0],
"altup_active_idx":2,"altup_correct_scale":true,"altup_num_inputs":3,"attention_bias":true,
"final_logit_softcapping":null,"head_dim":4,"hidden_size":24,"hidden_size_per_layer_input":3,
"intermediate_size":[23,19,24,20,18,17,22],"kv_sharing_map":[0,1,0,0,4,5,0],"laurel_rank":4,
"layer_types":["sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention"],"model_type":"gemma3n_text",
"num_attention_heads":6,"num_hidden_layers":7,"num_key_value_heads":2,"num_kv_shared_layers":0,
"rms_norm_eps":1e-06,"rope_parameters":{"full_attention":{"rope_theta":10000.0,
"rope_type":"default"},"sliding_attention":{"rope_theta":1000000.0,"rope_type":"default"}},
"sliding_window":3,"tie_word_embeddings":true,"vocab_size":32,"vocab_size_per_layer_input":4},
"weights":{"dead_tensors":"absent","dtype":"F32","seed":6059041949563465913}},
"property":"agreement","seed":1,"subject":"reference:bfloat16"})";

std::unique_ptr<Yardstick> yardstick_of(const Case& test_case, const char* dtype) {
  return std::make_unique<Yardstick>(make_model_source(test_case.model)->checkpoint(), dtype);
}

/// Rows of a score in that precision which are outside the budget, and still count.
int rows_called_different(const Case& test_case, const char* subject_name,
                          const Assessment& assessment) {
  const auto subject = make_subject(subject_name);
  const auto source = make_model_source(test_case.model);
  const LoadedModel model(*subject, *source);
  const Output seen = ask_score(model, assessment.history, false);
  int rows = 0;
  for (int p = 0; p < seen.logits.positions; ++p) {
    double error = 0;
    for (int i = 0; i < seen.logits.vocab; ++i)
      error = std::max(error, std::abs(seen.logits.row(p)[i] - assessment.truth.row(p)[i]));
    rows += error > assessment.budget[p] && !assessment.ill_conditioned[p];
  }
  return rows;
}

TEST(Yardstick, a_rare_turn_is_found_before_a_row_is_called_different) {
  const Case test_case = parse_case(kRareTurn, "yardstick_test");
  const auto yardstick = yardstick_of(test_case, "bfloat16");
  int at_first = 0, closely = 0;
  for (const TokenHistory& history : longest_histories(test_case.calls)) {
    at_first +=
        rows_called_different(test_case, "reference:bfloat16", yardstick->assess(history, false));
    closely +=
        rows_called_different(test_case, "reference:bfloat16", yardstick->assess_closely(history));
  }
  EXPECT_GT(at_first, 0) << "the case no longer shows what it is kept for";
  EXPECT_EQ(closely, 0);
}

TEST(Yardstick, rows_that_answer_in_proportion_are_judged_after_the_closer_look_too) {
  for (const char* dtype : {"float32", "bfloat16", "float16"}) {
    int judged = 0, still = 0;
    for (int index = 0; index < 24; ++index) {
      const Case test_case = find_property("agreement").generate(5, index, CaseSize::smoke);
      const TokenHistory history = longest_histories(test_case.calls).front();
      const auto yardstick = yardstick_of(test_case, dtype);
      for (bool ill : yardstick->assess(history, false).ill_conditioned) judged += !ill;
      for (bool ill : yardstick->assess_closely(history).ill_conditioned) still += !ill;
    }
    EXPECT_GT(judged, 50) << dtype;
    printf("%s: %d of %d rows\n", dtype, still, judged);
    EXPECT_GE(still, 0.97 * judged) << dtype;
  }
}

}  // namespace
}  // namespace kvconform
