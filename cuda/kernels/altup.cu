// The elementwise steps of AltUp over streams [T, N, H]. A thread has one element of a token in all
// streams, so that streams may be changed in place.
#include "cuda/kernels/elementwise.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

struct Tanh {
  float* x;
  DV_FN void operator()(std::size_t i) const { x[i] = dv::tanh_exact(x[i]); }
};

struct Predict {
  const float *h, *coefs;
  float* predicted;
  int streams, width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t t = i / width, first = t * streams * width + i % width;
    const float* c = coefs + t * streams * streams;
    for (int s = 0; s < streams; ++s) {
      float sum = 0.f;
      for (int r = 0; r < streams; ++r)
        sum = fmaf(c[s * streams + r], h[first + std::size_t(r) * width], sum);
      predicted[first + std::size_t(s) * width] = h[first + std::size_t(s) * width] + sum;
    }
  }
};

struct Correct {
  float* streams;
  const float *coefs, *activated;
  int active, count, width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t t = i / width, first = t * count * width + i % width;
    const float innovation = activated[i] - streams[first + std::size_t(active) * width];
    for (int s = 0; s < count; ++s)
      streams[first + std::size_t(s) * width] += innovation * (coefs[t * count + s] + 1.f);
  }
};

struct AddToSideStreams {
  float* streams;
  const float* x;
  int count, width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t first = i / width * count * width + i % width;
    for (int s = 1; s < count; ++s) streams[first + std::size_t(s) * width] += x[i];
  }
};

struct MeanOfStreams {
  const float* streams;
  float* out;
  int count, width;
  DV_FN void operator()(std::size_t i) const {
    const std::size_t first = i / width * count * width + i % width;
    float sum = streams[first];
    for (int s = 1; s < count; ++s) sum += streams[first + std::size_t(s) * width];
    out[i] = sum / float(count);
  }
};

}  // namespace

void tanh_in_place(float* x, std::size_t count) {
  launch_elementwise("tanh", count, Tanh{x});
}
void altup_predict(const float* h, const float* coefs, float* predicted, int tokens, int streams,
                   int width) {
  launch_elementwise("altup_predict", std::size_t(tokens) * width,
                     Predict{h, coefs, predicted, streams, width});
}
void altup_correct(float* streams, const float* coefs, const float* activated, int active,
                   int tokens, int count, int width) {
  launch_elementwise("altup_correct", std::size_t(tokens) * width,
                     Correct{streams, coefs, activated, active, count, width});
}
void add_to_side_streams(float* streams, const float* x, int tokens, int count, int width) {
  launch_elementwise("add_to_side_streams", std::size_t(tokens) * width,
                     AddToSideStreams{streams, x, count, width});
}
void mean_of_streams(const float* streams, float* out, int tokens, int count, int width) {
  launch_elementwise("mean_of_streams", std::size_t(tokens) * width,
                     MeanOfStreams{streams, out, count, width});
}

}  // namespace kvconform::cuda::inline DV_MACHINE
