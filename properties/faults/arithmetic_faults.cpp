// C12, C14 and C21: empty ranges, score transforms, rounding that depends on neighbours.
#include "properties/faults/fault_table.h"

namespace kvconform {
namespace {

const char* const kC12 = "C12 rows or splits that attend to nothing";
const char* const kC14 = "C14 score transforms lost";
const char* const kHeadConventions = "rotary and head conventions";
const char* const kMasks = "masks that are numbers";
const char* const kC21 = "C21 batch-dependent rounding, run-to-run change";

}  // namespace

std::vector<Planted> arithmetic_faults() {
  using enum FaultKind;
  return {
      {empty_split_gives_nan,
       {"empty-split-gives-nan", "rocMLIR #2371",
        "decode cuts the keys into four splits and divides each by its sum, empty ones too", kC12,
        "finite", site::attention(site::any)}},
      {masked_tiles_give_nan,
       {"masked-tiles-give-nan", "flash-attention-npu #168, transformers #47678",
        "tiles wholly before the window are merged without a guard: infinity minus infinity", kC12,
        "finite", site::attention(site::sliding)}},
      {FaultKind::none,
       {"padded-rows-give-nan", "transformers #47678, unsloth #9848",
        "rows that need pads attend to nothing at their pads and come back as NaN", kC12,
        "batch-rows", site::of("logits")},
       padded_rows_give_nan},
      {soft_cap_missing,
       {"soft-cap-missing", "vLLM #52173, sglang #33915",
        "the final soft cap is accepted and never applied", kC14, "agreement", site::of("logits")}},
      {soft_cap_missing_with_cache,
       {"soft-cap-missing-with-cache", "keras-hub #1712",
        "the final soft cap is applied by score only", kC14, "cache-independence",
        site::of("logits")}},
      {soft_cap_missing_without_cache,
       {"soft-cap-missing-without-cache", "keras-hub #1712", "score leaves out the final soft cap",
        kC14, "cache-independence", site::of("logits")}},
      {soft_cap_formula_wrong,
       {"soft-cap-formula-wrong", "unsloth-zoo #593",
        "the cap multiplies by the logit: z tanh(z / c)", kC14, "agreement", site::of("logits")}},
      {soft_cap_applied_twice,
       {"soft-cap-applied-twice", "flashinfer #1193", "the final soft cap is applied twice", kC14,
        "agreement", site::of("logits")}},
      {soft_cap_before_head,
       {"soft-cap-before-head", "sglang #33915",
        "the cap is applied to what the head reads, not to its logits", kC14, "agreement",
        site::of("final_norm")}},
      {soft_cap_by_exponentials,
       {"soft-cap-by-exponentials", "nntrainer #3935, transformers #36832",
        "the cap divides exponentials, which leave the range: infinity over infinity", kC14,
        "finite", site::of("logits")}},
      {scores_scaled,
       {"scores-scaled", "mlc-llm #3426",
        "scores are divided by the root of the head size, which these models do not do", kC14,
        "agreement", site::attention(site::any)}},
      {scores_scaled_in_decode,
       {"scores-scaled-in-decode", "mlc-llm #3426",
        "single tokens divide their scores by the root of the head size", kC14,
        "prefill-equals-decode", site::attention(site::any)}},
      {scores_scaled_in_full_layers,
       {"scores-scaled-in-full-layers", "mlc-llm #3426",
        "full layers divide their scores by the root of the head size", kC14, "agreement",
        site::attention(site::full)}},
      {key_heads_by_modulo,
       {"key-heads-by-modulo", "llama.cpp #25315",
        "query head j reads key head j modulo their number", kHeadConventions,
        "equal-configurations", site::attention(site::any)}},
      {key_heads_by_modulo_in_decode,
       {"key-heads-by-modulo-in-decode", "llama.cpp #25315",
        "in decode, query head j reads key head j modulo their number", kHeadConventions,
        "prefill-equals-decode", site::attention(site::any)}},
      {split_count_from_batch,
       {"split-count-from-batch", "FlashMLA #212, pegainfer #613",
        "the keys are cut into as many splits as the batch has rows", kC21, "batch-rows",
        site::attention(site::any)}},
      {splits_follow_other_rows,
       {"splits-follow-other-rows", "sgl-flash-attn #43",
        "the size of splits follows the longest row of the batch", kC21, "batch-rows",
        site::attention(site::any)}},
      {sum_order_changes,
       {"sum-order-changes", "batch_invariant_ops #6, pegainfer #414",
        "the order of a sum changes from run to run", kC21, "determinism",
        site::attention(site::any)}},
      {sums_differ_without_cache,
       {"sums-differ-without-cache", "pegainfer #613, batch_invariant_ops #6",
        "the kernel without a cache sums in another order, although the same bits are promised",
        kC21, "cache-independence", site::attention(site::any)}},
      {sums_differ_with_dead_tensors,
       {"sums-differ-with-dead-tensors", "lattice #992, pegainfer #613",
        "projections in the file for every layer select a fused kernel, which sums otherwise", kC21,
        "dead-tensors", site::attention(site::any)}},
      {FaultKind::none,
       {"second-load-sums-otherwise", "pegainfer #414, batch_invariant_ops #6",
        "an engine without a cache picks another kernel for a model that it has already loaded",
        kC21, "determinism", site::attention(site::any)},
       second_load_sums_otherwise},
      {future_masked_by_a_number,
       {"future-masked-by-a-number", "TransformerLens #318",
        "an engine without a cache lowers scores of later tokens to 16 below the largest, no "
        "further",
        kMasks, "causality", site::attention(site::any)},
       scores_only},
      {past_masked_by_a_number,
       {"past-masked-by-a-number", "TransformerLens #318",
        "an engine without a cache lowers scores before the window to 16 below the largest", kMasks,
        "window-reach", site::attention(site::sliding)},
       scores_only}};
}

}  // namespace kvconform
