// The table of planted faults, and the model compiled once more with faulty decisions.
#include "properties/faults/faults.h"

#include <fmt/format.h>

#include "properties/faults/faulty_decisions.h"
#include "properties/subjects/reference_subject.hpp"
#include "reference/error.h"
#include "reference/model.hpp"

namespace kvconform {
namespace {

struct Planted {
  FaultKind kind;
  Fault fault;
};

const char* const kCacheObject = "C01 sharing tied to the cache object";
const char* const kPositions = "C02 position counters";
const char* const kPlumbing = "C03 sharing plumbing in the runtime";
const char* const kWindowWidth = "C05 window width off by one";
const char* const kWindowDropped = "C06 window dropped, or on the wrong layers";
const char* const kChunks = "C08 prefill in chunks, or longer than the window";
const char* const kRollback = "C09 rollback, trim, speculation";
const char* const kBatch = "C11 batch and padding";
const char* const kScores = "C14 score transforms lost";
const char* const kSideInputs = "C18 side inputs missing on one path";

const std::vector<Planted>& planted() {
  using enum FaultKind;
  static const std::vector<Planted> table = {
      {own_keys_without_cache,
       {"own-keys-without-cache", "mlx-lm #1674, transformers #45253",
        "without a cache, consumers project keys and values of their own", kCacheObject,
        "cache-independence"}},
      {query_after_append,
       {"query-after-append", "mlx-lm #1805",
        "consumers rotate queries by the owner's position after its append", kPositions,
        "prefill-equals-decode"}},
      {mask_after_first_layer,
       {"mask-after-first-layer", "flash-linear-attention #766",
        "layers above 0 take the mask one position late: layer 0 has moved the counter", kPositions,
        "cache-independence"}},
      {chunk_counted_twice,
       {"chunk-counted-twice", "mlx-node #33",
        "a later chunk of several tokens is rotated two steps too far", kPositions, "chunking"}},
      {position_from_kept_rows,
       {"position-from-kept-rows", "VeloxQuant-MLX #389",
        "sliding layers count positions by the keys they still hold", kPositions,
        "prefill-equals-decode"}},
      {consumer_reads_current_chunk,
       {"consumer-reads-current-chunk", "vllm-gaudi #1619",
        "consumers see the keys of the current call only", kPlumbing, "chunking"}},
      {consumer_reads_first_owner,
       {"consumer-reads-first-owner", "vllm-ascend #16980, tt-metal #46247",
        "consumers read the first layer of their type instead of their owner", kPlumbing,
        "agreement"}},
      {window_one_too_wide,
       {"window-one-too-wide", "transformers #29623, vLLM #3385",
        "sliding layers see W keys and themselves", kWindowWidth, "agreement"}},
      {window_one_too_wide_in_prefill,
       {"window-one-too-wide-in-prefill", "mlx-lm #390",
        "calls of several tokens see one key too many, decode does not", kWindowWidth,
        "prefill-equals-decode"}},
      {window_one_too_narrow_in_decode,
       {"window-one-too-narrow-in-decode", "TensorRT-LLM #5564",
        "calls of one token see one key too few", kWindowWidth, "prefill-equals-decode"}},
      {window_ignored_in_decode,
       {"window-ignored-in-decode", "mobius #371", "calls of one token see every key",
        kWindowDropped, "prefill-equals-decode"}},
      {window_missing,
       {"window-missing", "mistral.rs #246", "sliding layers see every key", kWindowDropped,
        "agreement"}},
      {window_on_all_layers,
       {"window-on-all-layers", "vLLM #21863", "full layers slide like their neighbours",
        kWindowDropped, "agreement"}},
      {one_lower_bound_per_chunk,
       {"one-lower-bound-per-chunk", "executorch #21857",
        "all queries of a call start at the first one's oldest key", kChunks, "chunking"}},
      {mask_from_zero_in_later_chunk,
       {"mask-from-zero-in-later-chunk", "mlxcel #885",
        "a later chunk is masked as if it stood at position 0", kChunks, "chunking"}},
      {keys_cut_to_trailing_window,
       {"keys-cut-to-trailing-window", "mlxcel #412",
        "keys are cut to the last W before the earlier queries of the call have read them", kChunks,
        "prefill-equals-decode"}},
      {causal_bound_rounded_up,
       {"causal-bound-rounded-up", "tt-metal #48899",
        "queries see later tokens of the same call up to a tile of four", kChunks,
        "prefill-equals-decode"}},
      {rewind_keeps_keys,
       {"rewind-keeps-keys", "mlx-lm #1486",
        "a rewind lowers the length of sliding layers but keeps their keys", kRollback,
        "cache-independence"}},
      {reorder_moves_full_layers_only,
       {"reorder-moves-full-layers-only", "omlx #567",
        "a reorder leaves the rows of sliding layers where they are", kBatch,
        "cache-independence"}},
      {first_rows_position_for_all,
       {"first-rows-position-for-all", "maclocal-api #92",
        "every row of a batch is rotated by the first row's position", kBatch,
        "cache-independence"}},
      {soft_cap_missing_with_cache,
       {"soft-cap-missing-with-cache", "keras-hub #1712",
        "the final soft cap is applied by score only", kScores, "cache-independence"}},
      {per_layer_input_of_chunk_start,
       {"per-layer-input-of-chunk-start", "mlx-vlm #898",
        "tokens of a later chunk get the per-layer input of its first token", kSideInputs,
        "chunking"}},
      {layer_scalar_missing_in_decode,
       {"layer-scalar-missing-in-decode", "imp #1289",
        "calls of one token leave out the layer scalar", kSideInputs, "prefill-equals-decode"}}};
  return table;
}

}  // namespace

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults = [] {
    std::vector<Fault> list;
    for (const Planted& entry : planted()) list.push_back(entry.fault);
    return list;
  }();
  return faults;
}

std::unique_ptr<Subject> make_faulty_subject(const std::string& name) {
  for (const Planted& entry : planted()) {
    if (entry.fault.name != name) continue;
    return std::make_unique<ReferenceSubject<Float32, Faulty>>("fault:" + name, "float32",
                                                               Faulty(entry.kind));
  }
  std::string names;
  for (const Planted& entry : planted()) names += (names.empty() ? "" : ", ") + entry.fault.name;
  throw Error("KV2103", fmt::format("there is no planted fault \"{}\"", name),
              fmt::format("use one of: {}", names));
}

}  // namespace kvconform
