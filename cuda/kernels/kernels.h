// What the engine asks of a device: one function an operator, raw pointers and sizes, no framework.
// Each stands in a file of its name. Every one gives the same bits for every shape of its launch
// (canonical.h); forms that differ in who computes what are chosen by shape, or by the caller.
//
// Letters: T rows of a call, H hidden, N outputs (also AltUp streams), K reduction length, D head
// dimension, nH/nK query and key/value heads, V vocabulary. All numbers are float; weights of
// projections lie transposed, [K, N], so that neighbouring threads read neighbouring numbers.
#pragma once

#include <cstddef>

#include "cuda/device/machine.h"

namespace kvconform::cuda::inline DV_MACHINE {

inline constexpr int kSumPiece = 256;  ///< long sums: [0, 256), [256, 512), … folded left to right
inline constexpr int kKeyPiece = 64;   ///< attention: keys [0, 64), [64, 128), … by position

/// Where a row of the flat list of tokens belongs.
struct TokenPlace {
  int row;       ///< of the batch
  int position;  ///< absolute
  int last;      ///< position of the newest token of its row in this call
};

// ---- embedding.cu ----

/// y[t, i] = table[ids[t], i] · factor
void embed(const float* table, const int* ids, float factor, float* y, int tokens, int width);
/// p[t, i] = (q[t, i] + table[ids[t], i] · factor) / √2: the per-layer inputs, width L·E
void join_per_layer_inputs(const float* q, const float* table, const int* ids, float factor,
                           float* p, int tokens, int width);

// ---- rms_norm.cu ----

struct RmsNorm {
  const float* x;       ///< [rows, width] with a pitch
  const float* weight;  ///< [width], or null
  float* y;             ///< may be x
  int rows, width;
  int x_pitch, y_pitch;
  float eps;
  float before = 1.f;               ///< factor of x before the norm
  float after = 1.f;                ///< factor of the result
  const float* residual = nullptr;  ///< added at the end, [rows, width]; may be y
  int residual_pitch = 0;
};
void rms_norm(const RmsNorm&);

/// y[r] ← y[r] · √mean(target[r]²) / √max(mean(y[r]²), 1e-5), in place
void match_magnitude(float* y, int y_pitch, const float* target, int target_pitch, int rows,
                     int width);

// ---- projection.cu ----

enum class ProjectionForm {
  by_shape,
  loop,   ///< a thread walks all of K
  group,  ///< threads of a block share K, piece by piece
  split   ///< blocks of a grid share K; needs a workspace of projection_workspace() floats
};
struct Projection {
  const float* x;       ///< [T, K] with a pitch
  const float* weight;  ///< [K, N]
  const float* bias;    ///< [N], or null
  float* y;             ///< [T, N] with a pitch
  int tokens, k, outputs;
  int x_pitch, y_pitch;
  ProjectionForm form = ProjectionForm::by_shape;
  float* workspace = nullptr;  ///< without one, `split` is done as `group`
  std::size_t workspace_floats = 0;
  /// Experts: row r uses the matrix experts[r] of [X, K, N] and row r / share of x.
  const int* experts = nullptr;
  int share = 1;
};
void project(const Projection&);
std::size_t projection_workspace(int tokens, int k, int outputs);

// ---- heads.cu ----

/// y[t, h] = RoPE(rms(x[t, h], weight)) for heads of width D; without weight or without rotation
/// where those are null. `table` is [positions, D] of cosines, then sines, D/2 each, for positions
/// from `first_position` on.
struct FinishHeads {
  const float* x;  ///< [T, heads·D]
  const float* weight;
  float* y;
  const float* table;
  const TokenPlace* places;
  int tokens, heads, head_dim;
  float eps;
  int first_position = 0;
};
void finish_heads(const FinishHeads&);

// ---- append.cu ----

/// Keys and values of one owner, [row, nK, slots, D]: position p lies in slot p mod slots. Only an
/// owner's storage hands one out: a consumer has nothing that it could write through.
struct OwnerCache {
  float *keys, *values;
  int slots;
};
struct CacheView {
  const float *keys, *values;
  int slots;
  CacheView(const OwnerCache& owner) : keys(owner.keys), values(owner.values), slots(owner.slots) {}
};
/// Writes new keys and values, [T, nK, D], to their slots.
void append_to_cache(const float* keys, const float* values, const OwnerCache& cache,
                     const TokenPlace* places, int tokens, int heads, int head_dim);

// ---- attention.cu ----

enum class AttentionForm {
  by_shape,
  loop,  ///< a block walks the key pieces of its token
  split  ///< one block a piece, then a merge; needs a workspace
};
struct Attention {
  const float* query;  ///< [T, nH, D]
  CacheView cache;
  const TokenPlace* places;
  float* output;  ///< [T, nH, D]
  int tokens, query_heads, key_heads, head_dim;
  int behind;       ///< a query sees so many positions before its own …
  int ahead;        ///< … and so many after it (0: causal)
  int most_pieces;  ///< that any token of the call may need
  AttentionForm form = AttentionForm::by_shape;
  float* workspace = nullptr;  ///< of the split form; too little of it: the loop form is taken
  std::size_t workspace_floats = 0;
  int first_position = 0;  ///< of a row: before it there is nothing to see
};
inline constexpr int kEverything = 1 << 30;
void attend(const Attention&);
std::size_t attention_workspace(int tokens, int query_heads, int head_dim, int most_pieces);

// ---- gated.cu ----

/// out[r, i] = gelu(gate'[r, i]) · up[r, i]; gate' = gate, or with `quantile` = Φ⁻¹(sparsity) of an
/// activation sparsity max(0, gate − mean − deviation · quantile).
struct GatedGelu {
  const float *gate, *up;
  float* out;  ///< [rows, width]; may be gate where the pitches agree
  int rows, width, gate_pitch, up_pitch;
  bool sparse = false;
  float quantile = 0.f;
};
void gated_gelu(const GatedGelu&);

// ---- experts.cu ----

/// Softmax over X router logits [T, X] in place; the k largest of each token (ties to the lower
/// index) by ascending index into chosen [T, k], renormalised and scaled into weights [T, k].
void choose_experts(float* router, const float* expert_scale, int* chosen, float* weights,
                    int tokens, int experts, int k);
/// out[t] = Σ_j weights[t, j] · results[t·k + j], j ascending
void combine_experts(const float* results, const float* weights, float* out, int tokens, int k,
                     int width);

// ---- altup.cu ----

/// x ← tanh(x), the modalities [T, N]
void tanh_in_place(float* x, std::size_t count);
/// predicted[t, s] = h[t, s] + Σ_r coefs[t, s·N + r] · h[t, r], all [T, N, H]
void altup_predict(const float* h, const float* coefs, float* predicted, int tokens, int streams,
                   int width);
/// streams[t, s] += (coefs[t, s] + 1) · (activated[t] − streams[t, active])
void altup_correct(float* streams, const float* coefs, const float* activated, int active,
                   int tokens, int count, int width);
/// streams[t, s] += x[t] for s ≥ 1
void add_to_side_streams(float* streams, const float* x, int tokens, int count, int width);
/// out[t] = mean of the N streams
void mean_of_streams(const float* streams, float* out, int tokens, int count, int width);

// ---- elementwise.cu ----

/// y[t, i] = (a[t, i] + b[t, i]) / √2
void join_halves(const float* a, const float* b, float* y, std::size_t count);
/// y[t, i] = x[t, i] · factor[i], x with a pitch
void scale_columns(const float* x, int x_pitch, const float* factor, float* y, int rows, int width);
/// x ← x · factor[0]
void scale_all(float* x, const float* factor, std::size_t count);
/// z ← cap · tanh(z / cap)
void soft_cap(float* z, float cap, std::size_t count);
/// y[i] = x[rows[i]]
void select_rows(const float* x, const int* rows, float* y, int count, int width);
void copy_rows(const float* x, int x_pitch, float* y, int y_pitch, int rows, int width);

// ---- argmax.cu ----

/// Index of the largest number of each row, the lower one of equals.
void argmax(const float* x, int* index, int rows, int width);

}  // namespace kvconform::cuda::inline DV_MACHINE
