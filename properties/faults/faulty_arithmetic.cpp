// Faults in scores, soft cap, the sums of attention and the inputs beside it.
#include <cmath>
#include <limits>

#include "properties/faults/faulty_decisions.h"
#include "reference/attention.h"
#include "reference/random.h"

namespace kvconform {
namespace {

constexpr int kSplits = 4;
constexpr int kKeysOfATile = 4;
constexpr float kMasked = -16;  // how far masked scores lie below the largest at least
constexpr float kNothing = -std::numeric_limits<float>::infinity();

using Piece = SoftmaxPiece<float>;

/// The keys of one split that lie in the range; nothing, as a kernel without a guard has it, where
/// none does.
Piece split_of(const float* query, const KeyValues<float>& kv, int offset, int head_dim,
               KeyRange range, int first, int last) {
  first = std::max(first, range.first);
  last = std::min(last, range.last);
  if (first > last) return {kNothing, 0, std::vector<float>(head_dim, 0)};
  return softmax_piece<Float32>(query, kv, offset, head_dim, first, last);
}

void write_out(const Piece& total, float* out) {
  for (std::size_t d = 0; d < total.weighted.size(); ++d) out[d] = total.weighted[d] / total.sum;
}

/// Splits of `size` positions from `begin` on, merged left to right.
void attend_in_tiles(const float* query, const KeyValues<float>& kv, int offset, int head_dim,
                     KeyRange range, int begin, int size, float* out) {
  Piece total = split_of(query, kv, offset, head_dim, range, begin, begin + size - 1);
  for (int first = begin + size; first <= range.last; first += size)
    merge_piece(total, split_of(query, kv, offset, head_dim, range, first, first + size - 1));
  write_out(total, out);
}

/// A fixed number of splits, each divided by its own sum and then weighted: 0/0 in an empty one.
void attend_in_normalised_splits(const float* query, const KeyValues<float>& kv, int offset,
                                 int head_dim, KeyRange range, float* out) {
  const int keys = range.last - range.first + 1;
  const int size = std::max(1, (keys + kSplits - 1) / kSplits);
  float max = kNothing, sum = 0;
  std::vector<Piece> pieces;
  for (int s = 0; s < kSplits; ++s) {
    const int first = range.first + s * size;
    pieces.push_back(split_of(query, kv, offset, head_dim, range, first, first + size - 1));
    max = std::max(max, pieces.back().max);
  }
  std::fill(out, out + head_dim, 0.0F);
  for (const Piece& piece : pieces) {
    const float weight = piece.sum * exact_exp(piece.max - max);
    sum += weight;
    for (int d = 0; d < head_dim; ++d) out[d] += weight * (piece.weighted[d] / piece.sum);
  }
  for (int d = 0; d < head_dim; ++d) out[d] /= sum;
}

/// All keys of the call, those that must not be seen with scores lowered to well below the largest.
void attend_through_mask(const float* query, const KeyValues<float>& kv, int offset, int head_dim,
                         KeyRange range, KeyRange masked, float* out) {
  Piece total = split_of(query, kv, offset, head_dim, range, range.first, range.last);
  Piece leak = split_of(query, kv, offset, head_dim, masked, masked.first, masked.last);
  leak.max = std::min(leak.max, total.max) + kMasked;
  merge_piece(total, leak);
  write_out(total, out);
}

}  // namespace

void Faulty::attend_floats(const LayerPlan& layer, const CallShape& call, const float* query,
                           const KeyValues<float>& kv, int offset, KeyRange range,
                           float* out) const {
  const int dim = layer.head_dim;
  const KeyRange there = {std::max(range.first, kv.first),
                          std::min(range.last, kv.first + kv.count - 1)};
  const auto in_tiles = [&](int begin, int size) {
    attend_in_tiles(query, kv, offset, dim, there, begin, size, out);
  };
  if (there.first <= there.last) {
    switch (fault_) {
      case FaultKind::empty_split_gives_nan:
        if (!decodes(call)) break;
        return attend_in_normalised_splits(query, kv, offset, dim, there, out);
      case FaultKind::masked_tiles_give_nan:
        if (layer.window == 0) break;
        return in_tiles(kv.first, kKeysOfATile);
      case FaultKind::split_count_from_batch:
        if (call.batch == 1) break;
        return in_tiles(there.first, 1 + (there.last - there.first) / call.batch);
      case FaultKind::splits_follow_other_rows:
        if (call.longest_past == call.past) break;
        return in_tiles(there.first, 1 + call.longest_past % kKeysOfATile);
      case FaultKind::sums_differ_without_cache:
        if (call.cached) break;
        return in_tiles(there.first, kKeysOfATile);
      case FaultKind::sums_differ_with_dead_tensors:
        if (!dead_tensors_) break;
        return in_tiles(there.first, kKeysOfATile);
      case FaultKind::future_masked_by_a_number:
        if (there.last == kv.first + kv.count - 1) break;
        return attend_through_mask(query, kv, offset, dim, there,
                                   {there.last + 1, kv.first + kv.count - 1}, out);
      case FaultKind::past_masked_by_a_number:
        if (there.first == kv.first) break;
        return attend_through_mask(query, kv, offset, dim, there, {kv.first, there.first - 1}, out);
      case FaultKind::sum_order_changes:
        return in_tiles(there.first, 1 + int(mix64(++*runs_) % kKeysOfATile));
      default:
        break;
    }
  }
  kvconform::attend<Float32>(query, kv, offset, dim, range, out);
}

void Faulty::scale_queries(const LayerPlan& layer, const CallShape& call,
                           Matrix<float>& queries) const {
  const bool scales = is(FaultKind::scores_scaled) ||
                      (is(FaultKind::scores_scaled_in_decode) && decodes(call)) ||
                      (is(FaultKind::scores_scaled_in_full_layers) && layer.window == 0);
  if (!scales) return;
  const float root = exact_sqrt(float(layer.head_dim));
  for (float& x : queries.values) x /= root;
}

int Faulty::key_head(const LayerPlan& layer, const CallShape& call, int query_head) const {
  const bool by_modulo = is(FaultKind::key_heads_by_modulo) ||
                         (is(FaultKind::key_heads_by_modulo_in_decode) && decodes(call));
  return by_modulo ? query_head % layer.key_value_heads
                   : Healthy::key_head(layer, call, query_head);
}

Matrix<float> Faulty::final_norm_floats(const Matrix<float>& h, const TensorView& weight,
                                        double eps) const {
  Matrix<float> normed = Healthy::final_norm<Float32>(h, weight, eps);
  if (is(FaultKind::soft_cap_before_head) && cap_ > 0) {
    const float cap = float(cap_);
    for (float& x : normed.values) x = cap * exact_tanh(x / cap);
  }
  if (!is(FaultKind::squares_summed_in_float16)) return normed;
  const auto w = widened<Float32>(weight);
  for (int t = 0; t < h.rows; ++t) {
    float squares = 0;
    for (int i = 0; i < h.cols; ++i)
      squares = Float16::store(squares + Float16::store(h.at(t, i) * h.at(t, i)));
    const float scale = 1 / exact_sqrt(squares / float(h.cols) + float(eps));
    for (int i = 0; i < h.cols; ++i) normed.at(t, i) = h.at(t, i) * scale * w[i];
  }
  return normed;
}

float Faulty::soft_capped_float(float z, float cap, const CallShape& call) const {
  const float right = Healthy::soft_capped<Float32>(z, cap, call);
  switch (fault_) {
    case FaultKind::soft_cap_missing:
    case FaultKind::soft_cap_before_head:
      return z;
    case FaultKind::soft_cap_missing_with_cache:
      return call.cached ? z : right;
    case FaultKind::soft_cap_missing_without_cache:
      return call.cached ? right : z;
    case FaultKind::soft_cap_formula_wrong:
      return z * exact_tanh(z / cap);
    case FaultKind::soft_cap_by_exponentials:  // tanh x = (e²ˣ − 1) / (e²ˣ + 1)
      return std::isinf(exact_exp(2 * z / cap)) ? std::nanf("") : right;
    case FaultKind::soft_cap_applied_twice:
      return Healthy::soft_capped<Float32>(right, cap, call);
    default:
      return right;
  }
}

PerLayerSource Faulty::per_layer_input_of(const LayerPlan& layer, const CallShape& call,
                                          int t) const {
  if (is(FaultKind::per_layer_input_of_chunk_start) && later(call)) return {0, layer.layer};
  // Read as [L, T] where [T, L] was written; only where both are indices of the other.
  if (is(FaultKind::per_layer_input_axes_swapped) && layer.layer < call.tokens && t <= layer.layer)
    return {layer.layer, t};
  return {t, layer.layer};
}

int Faulty::experts_taken(const ModelConfig& config, const CallShape& call) const {
  const int k = config.top_k_experts;
  if (!is(FaultKind::expert_count_differs_in_decode) || !decodes(call)) return k;
  return k > 1 ? k - 1 : std::min(k + 1, config.num_experts);
}

}  // namespace kvconform
