// What a computation looked like on the way: named arrays, one entry a token row, in the order in
// which they were computed. Names and shapes are those of the subject protocol: `embedding` [T, H],
// `layer.I.attention` [T, H] (after o_proj, before the post-attention norm), `layer.I.output` [T,
// H] (Gemma 3n: [T, N, H], all AltUp streams), `final_norm` [T, H], `logits` [T, V]. Two more that
// our own model and the oracle data have: `per_layer_inputs` [T, L, E] and, for Gemma 3n, `streams`
// [T, N, H] before layer 0. Our own model alone adds `layer.I.router` [T, X], the probabilities
// that experts are chosen by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvconform {

struct TraceArray {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< widened: exact for every precision that a subject computes in
};

using Trace = std::vector<TraceArray>;

/// Logits of consecutive positions, row-major [positions, vocab], widened to double (exact).
struct Logits {
  int positions = 0;
  int vocab = 0;
  std::vector<double> values;

  const double* row(int position) const { return values.data() + std::size_t(position) * vocab; }
};

}  // namespace kvconform
