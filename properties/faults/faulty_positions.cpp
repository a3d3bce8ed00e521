// Faults in where a token is said to stand, and in how that turns into a rotation.
#include <cmath>

#include "properties/faults/faulty_decisions.h"
#include "reference/elementary.h"

namespace kvconform {
namespace {

constexpr int kTable = 4096;  // positions of a precomputed table

float to_bfloat16(float x) {
  return BFloat16::store(x);
}

/// Turns the pairs (first(i), second(i)), i < D/2, of every head.
template <class First, class Second, class Angle>
void turn(float* x, int heads, int head_dim, int pairs, First first, Second second, Angle angle) {
  for (int i = 0; i < pairs; ++i) {
    const float cosine = exact_cos(angle(i)), sine = exact_sin(angle(i));
    for (int h = 0; h < heads; ++h) {
      float& a = x[h * head_dim + first(i)];
      float& b = x[h * head_dim + second(i)];
      const float turned = a * cosine - b * sine;
      b = b * cosine + a * sine;
      a = turned;
    }
  }
}

/// The half split with cos and sin rounded to bfloat16.
void turn_by_short_tables(float* x, int heads, int head_dim, const std::vector<float>& frequencies,
                          int position) {
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float angle = float(position) * frequencies[i];
    const float cosine = to_bfloat16(exact_cos(angle)), sine = to_bfloat16(exact_sin(angle));
    for (int h = 0; h < heads; ++h) {
      float& a = x[h * head_dim + i];
      float& b = x[h * head_dim + i + half];
      const float turned = a * cosine - b * sine;
      b = b * cosine + a * sine;
      a = turned;
    }
  }
}

float rounded_position(FaultKind fault, int position) {
  switch (fault) {
    case FaultKind::positions_in_bfloat16:
      return to_bfloat16(float(position));
    case FaultKind::positions_in_float16:
      return Float16::store(float(position));
    case FaultKind::positions_clamped_to_table:
      return float(std::min(position, kTable - 1));
    default:
      return float(position);
  }
}

}  // namespace

/// Where queries and keys of a token are both said to stand.
int Faulty::position(const LayerPlan& layer, const CallShape& call, int t) const {
  if (!call.cached) return call.past + t;
  switch (fault_) {
    case FaultKind::position_after_first_layer:
      return call.past + (layer.layer > 0 ? call.tokens : 0) + t;
    case FaultKind::chunk_counted_twice:
      return call.past + (later(call) && call.tokens > 1 ? 2 : 0) + t;
    case FaultKind::position_from_kept_rows:
      if (layer.window == 0) break;
      return call.start + std::min(call.past - call.start, layer.window - 1) + t;
    case FaultKind::first_rows_position_for_all:
      return call.first_row_past + t;
    case FaultKind::positions_from_padded_width:
      return call.longest_past + (call.longest - call.tokens) + t;
    default:
      break;
  }
  return call.past + t;
}

int Faulty::query_position(const LayerPlan& layer, const CallShape& call, int t) const {
  if (call.cached) {
    if (is(FaultKind::query_after_append) && consumes(layer)) return call.past + call.tokens + t;
    if (is(FaultKind::offset_shared_in_batch) && call.batch > 1) return call.past + call.tokens + t;
    if (is(FaultKind::decode_query_one_late) && decodes(call)) return call.past + 1 + t;
    if (is(FaultKind::query_position_is_padded_length)) return call.longest_past + t;
  }
  return position(layer, call, t);
}

int Faulty::key_position(const LayerPlan& layer, const CallShape& call, int t) const {
  if (is(FaultKind::key_position_restarts)) return call.start + t;
  return position(layer, call, t);
}

void Faulty::rotate_floats(const LayerPlan& layer, const CallShape& call, float* x, int heads,
                           const std::vector<float>& frequencies, int position) const {
  const int dim = layer.head_dim, half = dim / 2;
  const int part = rotating_pairs(layer.rope, dim);
  const auto plain_angle = [&](int i) { return float(position) * frequencies[i]; };
  const auto same = [](int i) { return i; };
  const auto half_on = [half](int i) { return i + half; };
  const bool interleaves = is(FaultKind::rotary_interleaved) ||
                           (is(FaultKind::rotary_interleaved_in_decode) && decodes(call)) ||
                           (is(FaultKind::rotary_interleaved_for_consumers) && consumes(layer));
  if (interleaves) {
    return turn(
        x, heads, dim, half, [](int i) { return 2 * i; }, [](int i) { return 2 * i + 1; },
        plain_angle);
  }
  switch (fault_) {
    case FaultKind::positions_in_bfloat16:
    case FaultKind::positions_in_float16:
    case FaultKind::positions_clamped_to_table:
      return turn(x, heads, dim, half, same, half_on,
                  [&](int i) { return rounded_position(fault_, position) * frequencies[i]; });
    case FaultKind::angles_in_bfloat16_in_decode:
      if (!decodes(call)) break;
      return turn(x, heads, dim, half, same, half_on,
                  [&](int i) { return to_bfloat16(plain_angle(i)); });
    case FaultKind::rotary_tables_in_bfloat16:
      return turn_by_short_tables(x, heads, dim, frequencies, position);
    case FaultKind::partial_rotary_pairs_within_part:
      return turn(
          x, heads, dim, part, same, [part](int i) { return i + part; }, plain_angle);
    case FaultKind::partial_rotary_exponent_of_part:
      return turn(x, heads, dim, part, same, half_on, [&](int i) {
        const float frequency = 1 / exact_pow(float(layer.rope.theta), float(i) / float(part));
        return float(position) * frequency / float(layer.rope.factor);
      });
    default:
      break;
  }
  kvconform::rotate<Float32>(x, heads, dim, frequencies, position);
}

}  // namespace kvconform
