// What a layer is given beside its activations, and where it reports them.
#pragma once

#include <string>

#include "reference/attention.h"
#include "reference/trace.h"

namespace kvconform {

template <class N, class Decisions>
struct LayerInputs {
  const ModelConfig& config;
  AttentionContext<N, Decisions> attention;
  const Matrix<typename N::Scalar>& per_layer;  ///< [T, L·E]; empty if the model has none
};

/// Appends arrays to a Trace, or does nothing. With several rows a call, each array grows row by
/// row.
class Tracer {
 public:
  explicit Tracer(Trace* trace) : trace_(trace) {}

  template <class S>
  void record(const std::string& name, const Matrix<S>& values,
              std::vector<std::int64_t> shape = {}) {
    if (!trace_) return;
    TraceArray& array = find(name);
    if (shape.empty()) shape = {values.rows, values.cols};
    if (array.shape.empty()) {
      array.shape = shape;
    } else {
      array.shape[0] += shape[0];
    }
    for (const S& value : values.values) array.values.push_back(double(value));
  }

  template <class S>
  void record(int layer, const char* part, const Matrix<S>& values) {
    if (trace_) record("layer." + std::to_string(layer) + "." + part, values);
  }

  /// N matrices [T, H] as one array [T, N, H].
  template <class S>
  void record_streams(const std::string& name, const std::vector<Matrix<S>>& streams) {
    if (!trace_) return;
    const int n = static_cast<int>(streams.size()), hidden = streams[0].cols;
    Matrix<S> joined(streams[0].rows, n * hidden);
    for (int t = 0; t < joined.rows; ++t)
      for (int s = 0; s < n; ++s)
        std::copy(streams[s].row(t), streams[s].row(t) + hidden, joined.row(t) + s * hidden);
    record(name, joined, {joined.rows, n, hidden});
  }

  template <class S>
  void record_streams(int layer, const std::vector<Matrix<S>>& streams) {
    if (trace_) record_streams("layer." + std::to_string(layer) + ".output", streams);
  }

 private:
  TraceArray& find(const std::string& name) {
    for (TraceArray& array : *trace_)
      if (array.name == name) return array;
    trace_->push_back({name, {}, {}});
    return trace_->back();
  }

  Trace* trace_;
};

}  // namespace kvconform
