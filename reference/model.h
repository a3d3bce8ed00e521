// The reference model: incremental forward of Gemma 3n and Gemma 4 text models, written to be read.
//
// Two paths. `score` computes a sequence with no cache anywhere and touches no cache code; `extend`
// continues the rows of a KvCache. Both run the same layers; all that differs is who keeps the keys
// and values that owners publish (attention.h). The maths, step by step, is in model-spec.md.
//
//   auto checkpoint = Checkpoint::open("golden/oracle/gemma3n-base");
//   Model<Float32> model(checkpoint);
//   Matrix<float> logits = model.score({{1, 2, 3}});             // [3, V]
//   auto cache = model.open({.batch = 1, .capacity = 16});
//   model.extend(cache, {{1, 2}});                                // [2, V]
//   model.extend(cache, {{3}});                                   // [1, V]: the same bits as row 2
//   of score
//
// Bits: every sum has one order (summation.h, attention.h), so with one numerics all cuts of the
// same tokens into calls, batches and caches give equal bits. Errors: KV1401 (token outside the
// vocabulary), KV1403 (per-layer table), KV1404 (rows), KV1405 (capacity),
// KV1406 (bidirectional models have no cache).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "reference/checkpoint.h"
#include "reference/decisions.h"
#include "reference/kv_cache.h"
#include "reference/matrix.h"
#include "reference/numerics.h"
#include "reference/trace.h"

namespace kvconform {

template <class N, class Decisions = Healthy>
class Model {
 public:
  using S = typename N::Scalar;
  using Cache = KvCache<N, Decisions>;

  explicit Model(std::shared_ptr<const Checkpoint> checkpoint, int threads = 1,
                 Decisions decisions = {});

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelConfig& config() const { return checkpoint_->config(); }
  const std::vector<LayerPlan>& plan() const { return plan_; }

  /// Logits of every position of every row, [Σ T, V], with no cache.
  Matrix<S> score(const std::vector<std::vector<int>>& rows, Trace* trace = nullptr) const;

  /// An empty cache for this model. Throws KV1406 for bidirectional models.
  Cache open(const CacheShape& shape) const;

  /// Continues every row of the cache by its tokens (a list may be empty): logits of the new
  /// positions, [Σ T, V]. Input is checked before anything changes.
  Matrix<S> extend(Cache& cache, const std::vector<std::vector<int>>& rows,
                   Trace* trace = nullptr) const;

  /// Continues from what `Cache::save` wrote.
  Cache restore(std::istream& in) const { return Cache::restore(plan_, in, decisions_); }

 private:
  void check_tokens(const std::vector<std::vector<int>>& rows) const;
  void check_extend(const Cache& cache, const std::vector<std::vector<int>>& rows) const;

  template <class Keeper>
  Matrix<S> forward(std::span<const int> tokens, const CallShape& call, Keeper& keeper,
                    Trace* trace) const;
  Matrix<S> embed(std::span<const int> tokens, const CallShape& call) const;
  Matrix<S> head(const Matrix<S>& h, const CallShape& call, Trace* trace) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  int threads_;
  Decisions decisions_;
  Weights weights_;  ///< views into the checkpoint
  std::vector<LayerPlan> plan_;
  std::vector<std::vector<S>> frequencies_;  ///< [L][D/2]
};

/// Widened to double, as transcripts and reports hold logits (exact).
template <class S>
Logits to_logits(const Matrix<S>& logits) {
  Logits out{logits.rows, logits.cols, std::vector<double>(logits.values.size())};
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] = double(logits.values[i]);
  return out;
}

extern template class Model<Float32>;
extern template class Model<Float64>;
extern template class Model<BFloat16>;
extern template class Model<Float16>;
extern template class Model<Noisy>;

}  // namespace kvconform
