// The witness's attention: model-spec.md sections 3.6 (attention), 4 (RoPE), 5 (sharing) and 6.1
// (masks). Whole sequence, one matrix product a head, and a mask that says for every pair who sees
// whom.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "reference/witness_parts.h"

namespace kvconform::witness {
namespace {

/// The norm over D for each head: heads are consecutive blocks of D columns.
template <typename Norm>
Matrix for_each_head(const Matrix& x, int head_dim, Norm norm) {
  Matrix y(x.rows(), x.cols());
  for (Eigen::Index c = 0; c < x.cols(); c += head_dim) {
    y.middleCols(c, head_dim) = norm(Matrix(x.middleCols(c, head_dim)));
  }
  return y;
}

KeysValues keys_and_values(const Pass& pass, int layer, const Matrix& x) {
  const LayerPlan& plan = pass.plan(layer);
  const LayerWeights& w = pass.weights(layer);
  const double eps = pass.config().rms_norm_eps;
  const Matrix k = linear(x, w.k_proj, w.k_bias);
  const Matrix v = plan.values_from_keys ? k : linear(x, w.v_proj, w.v_bias);
  const Matrix normed =
      for_each_head(k, plan.head_dim, [&](const Matrix& head) { return rms(head, w.k_norm, eps); });
  return {rotate_heads(normed, plan.rope, plan.head_dim),
          for_each_head(v, plan.head_dim, [&](const Matrix& head) { return rms(head, eps); })};
}

bool visible(const LayerPlan& plan, bool bidirectional, int query, int key) {
  const bool sliding = plan.type == AttentionType::sliding;
  if (bidirectional) return !sliding || std::abs(query - key) <= plan.window / 2 + 1;
  return key <= query && (!sliding || key > query - plan.window);
}

}  // namespace

Row rope_frequencies(const Rope& rope, int head_dim) {
  const int half = head_dim / 2;
  Row f(half);
  for (int i = 0; i < half; ++i) f[i] = std::pow(rope.theta, -2.0 * i / head_dim);
  if (rope.kind == Rope::Kind::plain) return f;
  if (rope.kind == Rope::Kind::proportional) {
    const int rotating = int(std::floor(rope.partial_rotary_factor * head_dim)) / 2;
    f.tail(half - rotating).setZero();
  }
  return f / rope.factor;
}

Matrix rotate_heads(const Matrix& x, const Rope& rope, int head_dim) {
  const Column positions = Column::LinSpaced(x.rows(), 0.0, double(x.rows() - 1));
  const Matrix angles = positions * rope_frequencies(rope, head_dim);  // [T, D/2]
  const Matrix c = angles.array().cos(), s = angles.array().sin();
  const int half = head_dim / 2;
  return for_each_head(x, head_dim, [&](const Matrix& head) {
    const Matrix left = head.leftCols(half), right = head.rightCols(half);
    Matrix rotated(head.rows(), head_dim);
    rotated << left.cwiseProduct(c) - right.cwiseProduct(s),
        right.cwiseProduct(c) + left.cwiseProduct(s);
    return rotated;
  });
}

Matrix mask(const LayerPlan& plan, bool bidirectional, int tokens) {
  const double hidden = -std::numeric_limits<double>::infinity();
  return Matrix::NullaryExpr(tokens, tokens, [&](Eigen::Index query, Eigen::Index key) {
    return visible(plan, bidirectional, int(query), int(key)) ? 0.0 : hidden;
  });
}

Matrix attention(Pass& pass, int layer, const Matrix& x) {
  const LayerPlan& plan = pass.plan(layer);
  const LayerWeights& w = pass.weights(layer);
  if (plan.owner == layer) pass.by_owner[layer] = keys_and_values(pass, layer, x);
  const KeysValues& kv = pass.by_owner.at(plan.owner);

  const int d = plan.head_dim, group = plan.query_heads / plan.key_value_heads;
  const Matrix normed = for_each_head(linear(x, w.q_proj, w.q_bias), d, [&](const Matrix& head) {
    return rms(head, w.q_norm, pass.config().rms_norm_eps);
  });
  const Matrix q = rotate_heads(normed, plan.rope, d);
  const Matrix hidden = mask(plan, pass.config().bidirectional_all, int(x.rows()));
  Matrix mixed(q.rows(), q.cols());
  for (int j = 0; j < plan.query_heads; ++j) {
    const auto k = kv.keys.middleCols(j / group * d, d), v = kv.values.middleCols(j / group * d, d);
    const Matrix scores = q.middleCols(j * d, d) * k.transpose() + hidden;  // scale 1
    mixed.middleCols(j * d, d) = softmax(scores) * v;
  }
  return linear(mixed, w.o_proj, w.o_bias);
}

}  // namespace kvconform::witness
