// Known patterns. Each sentence names what to look at, not whom to blame.
#include "properties/causes.h"

#include <fmt/format.h>

#include "reference/layer_plan.h"

namespace kvconform {
namespace {

bool within_subject(const std::string& property) {
  return property == "cache-independence" || property == "prefill-equals-decode" ||
         property == "chunking";
}

std::string consumer_cause(const std::string& property, const LayerPlan& layer) {
  const std::string who =
      fmt::format("layer {} is the first to part and reads the keys and values of layer {}",
                  layer.layer, layer.owner);
  if (property == "dead-tensors") {
    return who +
           "; it seems to use projections of its own, which must be skipped (transformers #45336)";
  }
  if (property == "cache-independence") {
    return who +
           "; does it get them on one path only, or project its own without a cache "
           "(mlx-lm #1674), or rotate its queries by a position read after the owner's "
           "append (mlx-lm #1805)?";
  }
  if (within_subject(property)) {
    return who +
           "; are its queries rotated by a position read after the owner's append "
           "(mlx-lm #1805), or are only the keys of the current call handed over?";
  }
  return who + "; is that the layer the sharing plan names (`kvconform plan`)?";
}

std::string attention_cause(const std::string& property, const LayerPlan& layer, int token) {
  if (!layer.owns_keys()) return consumer_cause(property, layer);
  if (layer.window > 0 && token >= layer.window - 1) {
    return fmt::format(
        "sliding layer {} (window {}) parts once the window is full: its edge, the mask of a later "
        "chunk, or keys dropped before they were read",
        layer.layer, layer.window);
  }
  if (within_subject(property)) {
    return fmt::format(
        "layer {} computes its own keys: look at the positions and the mask of calls "
        "on a cache that already holds tokens",
        layer.layer);
  }
  return "";
}

}  // namespace

std::string likely_cause(const Case& test_case, const ModelConfig& config, const Difference& at) {
  if (at.part == "embedding") return "the embedding itself differs: row, scale or precision";
  if (at.part == "per_layer_inputs") return "the per-layer inputs differ: table, row or scale";
  if (at.part == "logits" && at.layer < 0) return "";
  if (at.layer < 0 || at.layer >= config.num_layers) return "";
  const LayerPlan layer = plan_layers(config)[at.layer];
  if (at.part == "attention") return attention_cause(test_case.property, layer, at.token);
  if (at.part == "output") {
    return fmt::format(
        "the attention of layer {} agrees, its output does not: feed-forward, per-layer "
        "input or layer scalar",
        at.layer);
  }
  return "";
}

}  // namespace kvconform
