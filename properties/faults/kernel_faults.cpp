// Wrong kernels of the CUDA engine (cuda/kernels/planted_faults.h): subjects that run the engine on
// emulated threads with one of them in force. Missing barriers give the right numbers where fibers
// take turns, so those are tried under the race checker, on the cases of any property; all others
// without it, so that numbers alone must show them.
//
// One planted kernel is no row here: `projection_reads_weights_twice` gives the right numbers at a
// higher price, which exact counts show (`kvconform bench compare --gate-counts`).
#include "cuda/kernels/planted_faults.h"

#include "properties/faults/fault_table.h"
#include "properties/subjects/kernel_trial.h"
#include "reference/error.h"

namespace kvconform {

#ifdef KVCONFORM_PLANTED_KERNELS

namespace cuda::planted {
std::unique_ptr<Subject> make_cuda_subject(const std::string& name, KernelTrial trial);
}

std::unique_ptr<Subject> faulty_engine(const std::string& name, const Planted& entry) {
  return cuda::planted::make_cuda_subject(name,
                                          {entry.kernel, entry.fault.caught_by == kRaceChecker});
}

namespace {

const char* const kRaces = "K1 kernels: barriers";
const char* const kTiles = "K2 kernels: tiles and pieces";
const char* const kPlaces = "K3 kernels: windows, slots and positions";
const char* const kFormulas = "K4 kernels: formulas";

bool has_sparsity(const LayerPlan& layer) {
  return layer.activation_sparsity > 0;
}

Planted race(cuda::PlantedFault kernel, const char* name, const char* bugs,
             const char* description) {
  return {FaultKind::none,
          {name, bugs, description, kRaces, kRaceChecker, site::nowhere},
          nullptr,
          kernel};
}

Planted row(cuda::PlantedFault kernel, Fault fault) {
  return {FaultKind::none, std::move(fault), nullptr, kernel};
}

void add_races(std::vector<Planted>& table) {
  using enum cuda::PlantedFault;
  table.insert(
      table.end(),
      {race(norm_reads_pieces_too_early, "kernel-norm-reads-sums-too-early",
            "Paddle #56435, mlx #2340", "a block adds up sums that its warps may still write"),
       race(norm_half_the_block_skips_a_barrier, "kernel-norm-half-a-block-skips-a-barrier",
            "llama.cpp #13469", "one half of a block does not come to a barrier"),
       race(projection_multiplies_before_x_arrived, "kernel-product-reads-inputs-too-early",
            "ninfer-3090 #49", "a product reads inputs that other threads may still load"),
       race(projection_overwrites_x_too_early, "kernel-product-overwrites-inputs-too-early",
            "sglang #37287, tilelang #2613",
            "the next inputs overwrite what others may still read"),
       race(projection_folds_too_early, "kernel-product-folds-too-early", "FlashMLA-ETAP #3",
            "sums of other groups are folded before they are there"),
       race(attention_softmax_too_early, "kernel-attention-softmax-too-early", "llm.c #847",
            "the largest score is sought among scores that may still be missing"),
       race(attention_weighs_too_early, "kernel-attention-weighs-too-early", "FlashMLA-ETAP #3",
            "values are weighted by scores that others may still turn into weights"),
       race(attention_overwrites_scores_too_early, "kernel-attention-overwrites-scores",
            "llama.cpp #28358, apex #1184", "the next keys' scores overwrite weights in use"),
       race(attention_merges_too_early, "kernel-attention-merges-too-early", "llama.cpp #28358",
            "two pieces are joined by factors that may still be computed"),
       race(projection_tile_edge, "kernel-product-reads-past-its-rows", "xllm #1939",
            "the last tile reads rows of inputs that are not there")});
}

void add_tiles(std::vector<Planted>& table) {
  using enum cuda::PlantedFault;
  table.insert(table.end(),
               {row(projection_drops_last_piece,
                    {"kernel-product-drops-the-last-piece", "imp #967",
                     "of a sum over more than 256 terms the last piece is left out", kTiles,
                     "agreement", site::nowhere}),
                row(projection_row_of_the_block_before,
                    {"kernel-product-writes-a-row-too-low", "cuda-oxide #1066",
                     "blocks of tokens but the first write one row too low", kTiles,
                     "prefill-equals-decode", site::nowhere}),
                row(projection_chain_over_all_of_k,
                    {"kernel-product-sums-by-launch-shape", "pegainfer #613, FlashMLA #212",
                     "long sums are one chain in one form of the kernel, pieces in another", kTiles,
                     "prefill-equals-decode", site::nowhere}),
                row(attention_drops_last_key_piece,
                    {"kernel-attention-drops-the-last-piece", "imp #967",
                     "where keys of more than one piece are seen, those of the last are not",
                     kTiles, "far-positions", site::attention(site::any)}),
                row(attention_window_from_piece_boundary,
                    {"kernel-window-from-a-piece-boundary", "ROCm aiter #5741, tt-metal #48899",
                     "windows begin at the boundary of a piece of keys", kTiles, "window-reach",
                     site::attention(site::sliding)}),
                row(attention_merges_unwritten_pieces,
                    {"kernel-attention-merges-unwritten-pieces", "rocMLIR #2371, nano-vllm #258",
                     "as many pieces are joined for every token as for the one that needs most",
                     kTiles, "far-positions", site::attention(site::any)})});
}

void add_places(std::vector<Planted>& table) {
  using enum cuda::PlantedFault;
  table.insert(
      table.end(),
      {row(attention_window_one_too_wide, {"kernel-window-one-too-wide", "transformers #29623",
                                           "sliding layers see W keys and themselves", kPlaces,
                                           "window-reach", site::attention(site::sliding)}),
       row(attention_next_key_head,
           {"kernel-next-key-head", "llama.cpp #25315", "queries read the next key head", kPlaces,
            "agreement", site::attention(site::any)}),
       row(attention_first_rows_cache,
           {"kernel-first-rows-cache", "omlx #567", "every row reads the cache of row 0", kPlaces,
            "batch-rows", site::attention(site::any)}),
       row(append_slot_after_the_wrap, {"kernel-slot-after-the-wrap", "transformers #37574",
                                        "past its end a ring is written one slot too far", kPlaces,
                                        "far-positions", site::attention(site::any)}),
       row(append_32_bit_offset,
           {"kernel-narrow-offset", "vLLM #50427, sglang #20389",
            "offsets into a cache are cut to fewer bits, so that rows lie on each other", kPlaces,
            "batch-rows", site::attention(site::any)}),
       row(rope_position_of_the_call, {"kernel-position-within-the-call", "mlxcel #885",
                                       "heads are rotated by the place in the call, not in the row",
                                       kPlaces, "chunking", site::attention(site::any)})});
}

void add_formulas(std::vector<Planted>& table) {
  using enum cuda::PlantedFault;
  table.insert(
      table.end(),
      {row(rope_interleaved_pairs, {"kernel-rotary-interleaved", "transformers #29285",
                                    "neighbours are rotated, not the halves of a head", kFormulas,
                                    "rotary-convention", site::attention(site::any)}),
       row(gate_takes_the_next_rows_up, {"kernel-gate-takes-the-next-row", "vLLM #47765",
                                         "gates are multiplied with the next token's numbers",
                                         kFormulas, "causality", site::output(site::any)}),
       row(experts_weight_of_the_first_choice, {"kernel-experts-share-a-weight", "mobius #546",
                                                "every chosen expert has the weight of the first",
                                                kFormulas, "agreement", site::output(site::any)}),
       row(sparsity_sample_deviation,
           {"kernel-sparsity-by-sample-deviation", "Morphology-Informed-HGNN #11",
            "the cut-off of a sparse layer divides by one less", kFormulas, "agreement",
            site::output(has_sparsity)}),
       row(magnitude_without_bound,
           {"kernel-magnitude-without-bound", "transformers #39135",
            "a stream of zeros is scaled by 0/0", kFormulas, "finite", site::nowhere})});
}

}  // namespace

std::vector<Planted> kernel_faults() {
  std::vector<Planted> table;
  add_races(table);
  add_tiles(table);
  add_places(table);
  add_formulas(table);
  return table;
}

#else  // sanitizers have hooks of their own: nothing can be watched

std::vector<Planted> kernel_faults() {
  return {};
}

std::unique_ptr<Subject> faulty_engine(const std::string& name, const Planted&) {
  throw HarnessError("KV2390", "there is no kernel with the fault " + name,
                     "report this: the table of faults has a row that this build cannot run");
}

#endif

}  // namespace kvconform
