// Wrong kernels on purpose: the proof that properties and checkers can fail. Only kernels compiled
// with PLANTED_FAULTS hold them (the machine `planted`); FAULT(x) is the constant false everywhere
// else, so that the kernels that ship have no trace of it. To plant another: a name here, its place
// in a kernel, a row in properties/faults/kernel_faults.cpp with what must catch it.
#pragma once

namespace kvconform::cuda {

enum class PlantedFault {
  none,
  // missing or misplaced barriers: races
  norm_reads_pieces_too_early,
  norm_half_the_block_skips_a_barrier,
  projection_multiplies_before_x_arrived,
  projection_overwrites_x_too_early,
  projection_folds_too_early,
  attention_softmax_too_early,
  attention_weighs_too_early,
  attention_overwrites_scores_too_early,
  attention_merges_too_early,
  // wrong places
  projection_tile_edge,
  projection_drops_last_piece,
  projection_row_of_the_block_before,
  projection_chain_over_all_of_k,
  attention_drops_last_key_piece,
  attention_window_from_piece_boundary,
  attention_window_one_too_wide,
  attention_next_key_head,
  attention_merges_unwritten_pieces,
  attention_first_rows_cache,
  append_slot_after_the_wrap,
  append_32_bit_offset,
  rope_position_of_the_call,
  rope_interleaved_pairs,
  gate_takes_the_next_rows_up,
  experts_weight_of_the_first_choice,
  sparsity_sample_deviation,
  magnitude_without_bound,
  // the right result, at a higher price
  projection_reads_weights_twice,
  last
};

/// Puts a fault in force for the launches of this OS thread; `none` takes it back.
void plant(PlantedFault fault);
bool is_planted(PlantedFault fault);

#if PLANTED_FAULTS
#define FAULT(name) ::kvconform::cuda::is_planted(::kvconform::cuda::PlantedFault::name)
#else
#define FAULT(name) false
#endif

}  // namespace kvconform::cuda
