// The kernels of the reference, each against its formula in double: off by no more than what float
// sums of so many terms can be, γ_n = n·2^−24 of the terms' magnitudes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/counters.h"
#include "bench/reference_workloads.h"
#include "reference/attention.h"
#include "reference/random.h"

namespace kvconform::bench {
namespace {

constexpr double kUnit = 1.0 / (1 << 24);

std::vector<float> numbers(std::size_t count, const char* name) {
  RandomStream random(stream_key(2, name));
  std::vector<float> values(count);
  for (float& v : values) v = RandomStream::symmetric(random.next());
  return values;
}

TensorView view(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  return {Dtype::f32, std::move(shape), reinterpret_cast<const std::byte*>(values.data())};
}

std::string off(const char* what, std::size_t index, double seen, double expected) {
  return fmt::format("{} {} is {:.9g}, expected {:.9g}", what, index, seen, expected);
}

/// y = x·Wᵀ
class LinearKernel : public Workload {
 public:
  LinearKernel(int tokens, int k, int outputs)
      : x_(tokens, k), weights_(numbers(std::size_t(k) * outputs, "weights")), outputs_(outputs) {
    x_.values = numbers(x_.values.size(), "x");
  }
  void run() override { y_ = linear<Float32>(x_, view(weights_, {outputs_, x_.cols})); }
  std::string wrong() override {
    for (int t = 0; t < x_.rows; ++t)
      for (int n = 0; n < outputs_; ++n) {
        double sum = 0, magnitude = 0;
        for (int i = 0; i < x_.cols; ++i) {
          const double term = double(x_.at(t, i)) * weights_[std::size_t(n) * x_.cols + i];
          sum += term;
          magnitude += std::fabs(term);
        }
        if (!(std::fabs(y_.at(t, n) - sum) <= (x_.cols + 1) * kUnit * magnitude))
          return off("output", n, y_.at(t, n), sum);
      }
    return "";
  }
  Counts counts() override {
    const double k = x_.cols, t = x_.rows, n = outputs_;
    return {{kTokens, t},
            {kMultiplyAdds, t * k * n},
            {kBytesNeeded, sizeof(float) * (k * n + t * k + t * n)}};
  }

 private:
  Matrix<float> x_, y_;
  std::vector<float> weights_;
  int outputs_;
};

class NormKernel : public Workload {
 public:
  explicit NormKernel(int width) : x_(1, width), weight_(numbers(width, "norm")) {
    x_.values = numbers(width, "x");
  }
  void run() override { y_ = rms_norm<Float32>(x_, view(weight_, {x_.cols}), 1e-6); }
  std::string wrong() override {
    double square = 0;
    for (float v : x_.values) square += double(v) * v;
    const double scale = 1 / std::sqrt(square / x_.cols + 1e-6);
    for (int i = 0; i < x_.cols; ++i) {
      const double expected = x_.at(0, i) * scale * weight_[i];
      if (!(std::fabs(y_.at(0, i) - expected) <= (x_.cols + 8) * kUnit * std::fabs(expected)))
        return off("element", i, y_.at(0, i), expected);
    }
    return "";
  }
  Counts counts() override {
    return {{kTokens, 1},
            {kMultiplyAdds, 3.0 * x_.cols},
            {kBytesNeeded, 3.0 * sizeof(float) * x_.cols}};
  }

 private:
  Matrix<float> x_, y_;
  std::vector<float> weight_;
};

/// One query head over `keys` positions.
class AttentionKernel : public Workload {
 public:
  AttentionKernel(int keys, int dim)
      : dim_(dim),
        keys_(keys),
        query_(numbers(dim, "query")),
        k_(numbers(std::size_t(keys) * dim, "keys")),
        v_(numbers(std::size_t(keys) * dim, "values")),
        out_(dim) {}
  void run() override {
    const KeyValues<float> kv{0, keys_, dim_, k_.data(), v_.data()};
    attend<Float32>(query_.data(), kv, 0, dim_, {0, keys_ - 1}, out_.data());
  }
  std::string wrong() override {
    std::vector<double> weight(keys_), expected(dim_);
    double sum = 0, magnitude = 0;
    for (int j = 0; j < keys_; ++j) {
      double score = 0;
      for (int d = 0; d < dim_; ++d) {
        score += double(query_[d]) * k_[j * dim_ + d];
        magnitude = std::max(magnitude, std::fabs(score));
      }
      sum += weight[j] = std::exp(score);
    }
    for (int d = 0; d < dim_; ++d) {
      for (int j = 0; j < keys_; ++j) expected[d] += weight[j] / sum * v_[j * dim_ + d];
      // Scores are off by γ_D of their terms, weights by as much again, the sums by γ_keys.
      const double budget = (2 * (dim_ + 2) * (magnitude + dim_) + 2 * keys_ + 16) * kUnit;
      if (!(std::fabs(out_[d] - expected[d]) <= budget))
        return off("dimension", d, out_[d], expected[d]);
    }
    return "";
  }
  Counts counts() override {
    const double numbers_seen = 2.0 * keys_ * dim_;
    return {{kTokens, 1},
            {kMultiplyAdds, numbers_seen},
            {kBytesNeeded, sizeof(float) * (numbers_seen + 2 * dim_)}};
  }

 private:
  int dim_, keys_;
  std::vector<float> query_, k_, v_, out_;
};

template <class Kernel, class... Arguments>
void add(Workloads& workloads, const std::string& name, Arguments... arguments) {
  workloads.push_back({"reference/kernels/" + name, [=]() -> std::unique_ptr<Workload> {
                         return std::make_unique<Kernel>(arguments...);
                       }});
}

}  // namespace

void add_reference_kernels(Workloads& workloads) {
  for (int tokens : {1, 16})
    add<LinearKernel>(workloads, fmt::format("linear/tokens:{}/k:512/outputs:512", tokens), tokens,
                      512, 512);
  add<NormKernel>(workloads, "rms_norm/width:2048", 2048);
  add<AttentionKernel>(workloads, "attention/keys:512/head_dim:64", 512, 64);
}

}  // namespace kvconform::bench
