// Loading a model onto its devices; scoring.
#include "cuda/engine.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform::cuda::inline DV_MACHINE {
namespace {

std::vector<int> checked_devices(std::vector<int> devices, int layers) {
  if (devices.empty()) devices.assign(layers, 0);
  if (int(devices.size()) != layers)
    throw Error("KV1506",
                "the list of devices has " + counted(devices.size(), "entry") + " for " +
                    counted(layers, "layer"),
                "name one device a layer, or give no list");
  for (int device : devices)
    if (device < 0 || device >= dv::device_count())
      throw Error("KV1506",
                  "device " + std::to_string(device) + " is not one of " +
                      std::to_string(dv::device_count()),
                  "name devices from 0");
  return devices;
}

EngineOptions checked(EngineOptions options, int layers) {
  options.devices = checked_devices(std::move(options.devices), layers);
  return options;
}

/// Φ⁻¹(p): Newton's iteration on the C library's erfc, which converges to double precision from 0.
float normal_quantile_of(double p) {
  if (p <= 0) return 0.f;
  double x = 0;
  for (int i = 0; i < 60; ++i) {
    const double error = 0.5 * std::erfc(-x / std::sqrt(2.0)) - p;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    const double step = error / density;
    x -= std::fmin(1.0, std::fmax(-1.0, step));  // far out the density misleads
    if (std::fabs(step) < 1e-15) break;
  }
  return float(x);
}

std::uint64_t digest_of(const std::string& text) {  // FNV-1a
  std::uint64_t hash = 1469598103934665603ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

}  // namespace

Engine::Engine(std::shared_ptr<const Checkpoint> checkpoint, EngineOptions options)
    : checkpoint_(std::move(checkpoint)),
      options_(checked(std::move(options), checkpoint_->config().num_layers)),
      weights_(*checkpoint_, options_.devices),
      digest_(digest_of(checkpoint_->config_json().dump())) {
  for (const LayerPlan& layer : plan()) {
    if (layer.head_dim > 512)
      throw Error("KV1508",
                  "layer " + std::to_string(layer.layer) + " has head dimension " +
                      std::to_string(layer.head_dim) + ", more than 512",
                  "the engine has no kernel for it; use the reference");
    quantiles_.push_back(normal_quantile_of(layer.activation_sparsity));
    if (layer.owns_keys()) last_owner_ = layer.layer;
  }
}

std::vector<float> Engine::score(const std::vector<std::vector<int>>& rows, Trace* trace) const {
  SessionOptions options;
  options.batch = std::max<int>(1, int(rows.size()));
  options.chunk = 1;
  std::size_t total = 0;
  for (const auto& row : rows) {
    options.capacity = std::max(options.capacity, int(row.size()));
    total += row.size();
  }
  if (total == 0) return {};
  options.chunk = int(total);
  options.reserve = 0;
  options.granularity = 1;
  options.everything = true;
  // Not owned: the session lives no longer than this call.
  Session session(std::shared_ptr<const Engine>(std::shared_ptr<const Engine>(), this), options);
  return session.extend(rows, Wanted::all, trace);
}

}  // namespace kvconform::cuda::inline DV_MACHINE
