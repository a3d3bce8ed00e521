// The decisions of a planted fault: the healthy ones with one answer changed. Which one is a value,
// not a type, so that the model is compiled once more and not once for each fault.
//
// To plant another: a name in fault_kind.h, the changed answer here (the longer ones in
// faulty_*.cpp, by what they are about), a row in the table it belongs to (*_faults.cpp).
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "properties/faults/fault_kind.h"
#include "reference/decisions.h"

namespace kvconform {

class Faulty : public Healthy {
 public:
  explicit Faulty(FaultKind kind) : fault_(kind) {}

  // ---- what is loaded, and whose keys are read (faulty_sharing.cpp) ----
  Weights weights_of(const Checkpoint& checkpoint) const;
  std::vector<LayerPlan> plan_of(const Checkpoint& checkpoint) const;
  bool computes_own_keys(const LayerPlan& layer, const CallShape& call) const;
  int read_from(const LayerPlan& layer, const CallShape& call) const;

  // ---- positions (faulty_positions.cpp) ----
  int query_position(const LayerPlan& layer, const CallShape& call, int t) const;
  int key_position(const LayerPlan& layer, const CallShape& call, int t) const;
  template <class N>
  void rotate(const LayerPlan& layer, const CallShape& call, float* x, int heads,
              const std::vector<float>& frequencies, int position) const {
    rotate_floats(layer, call, x, heads, frequencies, position);
  }

  // ---- masks and eviction (faulty_masks.cpp) ----
  KeyRange visible(const LayerPlan& layer, const CallShape& call, int query) const;
  int first_kept(const LayerPlan& layer, int start, int mark, int margin, int tokens,
                 int first) const;

  // ---- what is kept and read (faulty_storage.cpp) ----
  void prepare_to_keep(const LayerPlan& layer, const CallShape& call, Matrix<float>& keys,
                       Matrix<float>& values) const;
  KeyValues<float> as_read(const LayerPlan& reader, const CallShape& call,
                           const KeyValues<float>& kept) const;
  void arrange_restored(const LayerPlan& layer, std::vector<float>& keys,
                        std::vector<float>& values) const;
  int rewound_length(const std::vector<LayerPlan>& owners, const std::vector<int>& lengths, int row,
                     int current) const;
  bool rewind_drops_keys(const LayerPlan& layer) const;
  int reorder_source(const LayerPlan& layer, int row, const std::vector<int>& sources) const;
  int times_appended(const LayerPlan& layer) const {
    return is(FaultKind::call_appended_twice) && layer.role == Role::producer ? 2 : 1;
  }
  int write_index(int kept, int kept_by_first_row) const {
    return is(FaultKind::first_rows_write_index_for_all) ? std::min(kept, kept_by_first_row) : kept;
  }
  bool refuses_rewind() const;
  int restored_length(int saved) const { return is(FaultKind::restore_starts_at_zero) ? 0 : saved; }

  // ---- attention and the head (faulty_arithmetic.cpp) ----
  void scale_queries(const LayerPlan& layer, const CallShape& call, Matrix<float>& queries) const;
  int key_head(const LayerPlan& layer, const CallShape& call, int query_head) const;
  template <class N>
  void attend(const LayerPlan& layer, const CallShape& call, const float* query,
              const KeyValues<float>& kv, int offset, KeyRange range, float* out) const {
    attend_floats(layer, call, query, kv, offset, range, out);
  }
  template <class N>
  Matrix<float> final_norm(const Matrix<float>& h, const TensorView& weight, double eps) const {
    return final_norm_floats(h, weight, eps);
  }
  template <class N>
  float soft_capped(float z, float cap, const CallShape& call) const {
    return soft_capped_float(z, cap, call);
  }

  // ---- side inputs ----
  bool scales_embedding(const CallShape& call) const {
    return !(is(FaultKind::embedding_scale_missing_in_decode) && decodes(call));
  }
  PerLayerSource per_layer_input_of(const LayerPlan& layer, const CallShape& call, int t) const;
  bool adds_per_layer_input(const LayerPlan&, const CallShape& call) const {
    return !(is(FaultKind::per_layer_input_missing_in_decode) && decodes(call));
  }
  bool applies_layer_scalar(const LayerPlan&, const CallShape& call) const {
    if (is(FaultKind::layer_scalar_missing)) return false;
    return !(is(FaultKind::layer_scalar_missing_in_decode) && decodes(call));
  }
  double activation_sparsity(const LayerPlan& layer, const CallShape& call) const {
    return is(FaultKind::sparsity_missing_in_decode) && decodes(call) ? 0
                                                                      : layer.activation_sparsity;
  }
  int router_stream(int active) const {
    return is(FaultKind::altup_router_reads_stream_zero) ? 0 : active;
  }
  bool corrects_output_scale(const ModelConfig& config, const CallShape& call) const {
    return config.altup_correct_scale &&
           !(is(FaultKind::output_scale_missing_in_decode) && decodes(call));
  }
  int first_stream_with_per_layer_input() const {
    return is(FaultKind::per_layer_input_in_stream_zero) ? 0 : 1;
  }
  bool router_reads_raw_stream() const { return !is(FaultKind::router_reads_normed_stream); }
  int experts_taken(const ModelConfig& config, const CallShape& call) const;

 private:
  bool is(FaultKind kind) const { return fault_ == kind; }

  /// Reads of a cache that held tokens before the call.
  static bool later(const CallShape& call) { return call.cached && call.past > call.start; }
  static bool decodes(const CallShape& call) { return call.cached && call.tokens == 1; }
  static bool consumes(const LayerPlan& layer) { return !layer.owns_keys(); }

  void rotate_floats(const LayerPlan& layer, const CallShape& call, float* x, int heads,
                     const std::vector<float>& frequencies, int position) const;
  int position(const LayerPlan& layer, const CallShape& call, int t) const;
  KeyRange visible_to_consumer(const CallShape& call, KeyRange range) const;
  KeyRange visible_in_window(const LayerPlan& layer, const CallShape& call, int query,
                             KeyRange range) const;
  KeyRange visible_in_chunk(const LayerPlan& layer, const CallShape& call, int query,
                            KeyRange range) const;
  KeyRange visible_in_replay(const LayerPlan& layer, const CallShape& call, int query,
                             KeyRange range) const;
  void attend_floats(const LayerPlan& layer, const CallShape& call, const float* query,
                     const KeyValues<float>& kv, int offset, KeyRange range, float* out) const;
  Matrix<float> final_norm_floats(const Matrix<float>& h, const TensorView& weight,
                                  double eps) const;
  float soft_capped_float(float z, float cap, const CallShape& call) const;

  /// A tensor of this model's own, alive as long as the model.
  TensorView own_tensor(std::vector<std::int64_t> shape, std::vector<float> numbers) const;
  /// A copy of what is kept, with room for `more` positions of zeros.
  KeyValues<float> copy_of(const KeyValues<float>& kept, int more = 0) const;

  FaultKind fault_;
  mutable bool dead_tensors_ = false;  ///< the model's file has projections of consumers
  mutable int window_ = 0;     ///< of the model's sliding layers, once its plan was asked for
  mutable double cap_ = 0;     ///< the model's soft cap; 0: none
  mutable int captured_ = -1;  ///< last position seen by the first decoding call of the model
  mutable std::vector<float> keys_, values_;  ///< what as_read last made
  mutable std::shared_ptr<std::deque<std::vector<float>>> tensors_;
  /// Shared by all models of a subject: a run never starts anew.
  std::shared_ptr<std::atomic<std::uint64_t>> runs_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace kvconform
