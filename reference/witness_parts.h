// The parts of the witness (witness.h), private to it: one function for each block of formulas in
// reference/model-spec.md. A matrix has a row for each token; weights are [out, in], so a linear
// layer is x·Mᵀ. Section numbers are those of model-spec.md.
#pragma once

#include <Eigen/Core>
#include <map>
#include <string>
#include <vector>

#include "reference/checkpoint.h"
#include "reference/trace.h"

namespace kvconform::witness {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Column = Eigen::VectorXd;       // one number a token
using Row = Eigen::RowVectorXd;       // one number a dimension
using Streams = std::vector<Matrix>;  // N of [T, H]; Gemma 4 has one

/// Keys and values of one owner, all positions: [T, nK·D] each.
struct KeysValues {
  Matrix keys, values;
};

/// One computation: the model, and what its layers hand on to later layers.
struct Pass {
  const Checkpoint& checkpoint;
  std::vector<Matrix> per_layer_inputs;  // L of [T, E]; empty if E = 0
  std::map<int, KeysValues> by_owner;    // section 5: stored by owner, never by type
  Trace* trace = nullptr;

  const ModelConfig& config() const { return checkpoint.config(); }
  const LayerPlan& plan(int layer) const { return checkpoint.plan().at(layer); }
  const LayerWeights& weights(int layer) const { return checkpoint.weights().layers.at(layer); }
};

// Weights and the small functions of section 0.
Matrix widen(const TensorView& tensor);  // [rows, cols]
Matrix widen(const TensorView& tensor, std::int64_t first,
             std::int64_t rows);          // rows of it, [rows, cols]
Row widen_row(const TensorView& tensor);  // [count]
Matrix linear(const Matrix& x, const Matrix& weight);
Matrix linear(const Matrix& x, const TensorView& weight);
Matrix linear(const Matrix& x, const TensorView& weight,
              const TensorView& bias);  // bias may be absent
Column mean_square(const Matrix& x);
Matrix rms(const Matrix& x, double eps);
Matrix rms(const Matrix& x, const TensorView& weight, double eps);
Matrix gelu(const Matrix& x);
Matrix softmax(const Matrix& scores);
Matrix scale_rows(const Column& factors, const Matrix& x);

/// Φ⁻¹(p) for 0 < p < 1, by bisection on the complementary error function.
double normal_quantile(double p);

// Sections 3.6, 4, 5 and 6.1.
Row rope_frequencies(const Rope& rope, int head_dim);
Matrix rotate_heads(const Matrix& x, const Rope& rope, int head_dim);
Matrix mask(const LayerPlan& plan, bool bidirectional, int tokens);  // [T, T]: 0 or −∞
Matrix attention(Pass& pass, int layer, const Matrix& x);            // [T, H], after o_proj

// Sections 3.4 and 3.5.
Matrix mlp(const LayerWeights& weights, double sparsity, const Matrix& x);
Matrix router_weights(const Pass& pass, int layer,
                      const Matrix& h);  // [T, X], zero where not chosen
Matrix experts(const Pass& pass, int layer, const Matrix& h, const Matrix& x);
Streams gemma3n_layer(Pass& pass, int layer, const Streams& h);
Matrix gemma4_layer(Pass& pass, int layer, Matrix h);

/// Appends a traced array of shape [T, H] or, given several matrices, [T, how many, H].
void record(Trace* trace, const std::string& name, const Matrix& rows);
void record(Trace* trace, const std::string& name, const std::vector<Matrix>& parts);

}  // namespace kvconform::witness
