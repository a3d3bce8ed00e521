// Silence where an error is due: what must be refused and is not.
#include "properties/faults/fault_table.h"

namespace kvconform {
namespace {

const char* const kE = "silence where an error is due";

}  // namespace

std::vector<Planted> refusal_faults() {
  return {
      {FaultKind::none,
       {"accepts-tokens-outside-vocabulary", "transformers #31848",
        "a token outside the vocabulary is clamped to it", kE, "errors-not-silence", site::nowhere},
       accepts_tokens_outside_vocabulary},
      {FaultKind::none,
       {"accepts-extend-past-capacity", "transformers #31848, nano-vllm #258",
        "a call past the capacity of a session is served", kE, "errors-not-silence", site::nowhere},
       accepts_extend_past_capacity},
      {FaultKind::none,
       {"accepts-missing-rows", "vLLM #47765", "a call with the wrong number of rows is filled up",
        kE, "errors-not-silence", site::nowhere},
       accepts_missing_rows},
      {FaultKind::none,
       {"refusal-leaves-half-a-call", "mlx-lm #1512",
        "a refused call has already fed the rows before the one that is refused", kE,
        "errors-not-silence", site::nowhere},
       refusal_leaves_half_a_call},
      {FaultKind::none,
       {"accepts-invalid-map", "vllm-gaudi #1601, tt-metal #46247",
        "a map that points where there are no keys is accepted", kE, "topology", site::nowhere},
       accepts_invalid_map},
      {FaultKind::none,
       {"accepts-all-layers-shared", "tt-metal #46247", "a model of consumers only is accepted", kE,
        "topology", site::nowhere},
       accepts_all_layers_shared}};
}

}  // namespace kvconform
