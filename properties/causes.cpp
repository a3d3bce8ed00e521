// Known patterns. Each sentence names what to look at, not whom to blame.
#include "properties/causes.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/layer_plan.h"

namespace kvconform {
namespace {

bool within_subject(const std::string& property) {
  return property == "cache-independence" || property == "prefill-equals-decode" ||
         property == "chunking";
}

/// What properties about sessions have in common with real reports, by the layer that parts first.
struct SessionPattern {
  const char* property;
  const char* sliding;  ///< a sliding layer parts, its window full
  const char* other;    ///< another one, or none is known
};
constexpr SessionPattern kSessionPatterns[] = {
    {"batch-rows",
     "rows cross the window at different times: whose ring index is used, and are pads "
     "stored in the ring (mlx-lm #439)?",
     "is the row rotated or masked by another row's position or by the padded width (maclocal-api "
     "#92), or given another row's logits?"},
    {"rollback",
     "is a wrapped ring rewound by lowering a counter, or not at all (mlx-swift-lm "
     "#424), its dropped keys still visible (mlx-lm #1486)?",
     "are the dropped keys still visible (mlx-lm #1486), do all rows go back by one number "
     "(mlx-vlm #1155), does the next position restart (llama.cpp #29045)?"},
    {"fork-and-reorder",
     "does the ring of the copy or the reordered row move with its full layers "
     "(omlx #567), write index included?",
     "does a copy share memory with its original, or a reorder overwrite rows still to be read?"},
    {"save-and-restore",
     "is the ring written in physical order, or its write index left out "
     "(llama.cpp #25297)?",
     "are length and positions restored with the tensors (vllm-metal #144), and does saving leave "
     "the session alone?"},
    {"history-independence",
     "does a ring keep slots or its index from an earlier session (vllm-mlx "
     "#775)?",
     "does a slot keep its last user's position (tt-inference-server #4557), or is a prefix found "
     "by tokens that belong to another model or row (vLLM #49125)?"},
    {"greedy-speculation", "do rejected drafts stay in a wrapped ring (mlx-swift-lm #424, #383)?",
     "do rejected drafts stay visible, or do all rows advance by the same number (mlx-vlm #1155)?"},
    {"far-positions", "is the mask of the ring counted from 0, or a position cut to few bits?",
     "angles in low precision, a table of positions that ends, or a counter of few bits?"}};

/// Empty for other properties.
std::string session_cause(const std::string& property, const LayerPlan* layer, int token) {
  for (const SessionPattern& pattern : kSessionPatterns) {
    if (property != pattern.property) continue;
    if (layer == nullptr) return pattern.other;
    // A ring errs once it is full; what moves rows errs by kind of layer.
    const bool moves_rows = property == "fork-and-reorder";
    const bool ring = layer->window > 0 && (moves_rows || token >= layer->window);
    return fmt::format("layer {} is the first to part; {}", layer->layer,
                       ring ? pattern.sliding : pattern.other);
  }
  return "";
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

/// Tokens that the rows of the session hold once call `last` has run; rewinds are not looked at.
std::vector<int> fed_until(const Case& test_case, int last) {
  std::vector<int> fed;
  const auto& calls = test_case.calls;
  for (int i = 0; i <= last && i < static_cast<int>(calls.size()); ++i) {
    if (calls[i].kind != Call::Kind::extend || calls[i].session != calls[last].session) continue;
    fed.resize(std::max(fed.size(), calls[i].tokens.size()));
    for (std::size_t r = 0; r < calls[i].tokens.size(); ++r)
      fed[r] += static_cast<int>(calls[i].tokens[r].size());
  }
  return fed;
}

/// A row whose window is not full yet, beside one that has gone past it.
std::string padded_ring_cause(const Case& test_case, const LayerPlan& layer, const Difference& at) {
  if (test_case.property != "batch-rows" || layer.window == 0 || at.call < 0) return "";
  const std::vector<int> fed = fed_until(test_case, at.call);
  const bool wrapped =
      std::any_of(fed.begin(), fed.end(), [&](int count) { return count > layer.window; });
  if (!wrapped || at.token >= layer.window) return "";
  return fmt::format(
      "sliding layer {} (window {}) is the first to part, in a row whose window still holds "
      "padding while another row's ring has wrapped: is padding counted from the ring's oldest "
      "slot when a call brings several tokens (mlx-lm 0.32.2, BatchRotatingKVCache)?",
      layer.layer, layer.window);
}

}  // namespace

std::string cause_by_path(const ModelConfig& config, const Difference& at, RightWay right) {
  if (at.part != "attention" || at.layer < 0 || at.layer >= config.num_layers) return "";
  const LayerPlan layer = plan_layers(config)[at.layer];
  if (layer.owns_keys() || (right != RightWay::called && right != RightWay::asked)) return "";
  const std::string who =
      fmt::format("layer {} is the first to part and reads the keys and values of layer {}; ",
                  layer.layer, layer.owner);
  if (right == RightWay::called) {
    return who +
           "with a cache it is right, without one it does not get them: it projects its own "
           "(mlx-lm #1674)";
  }
  return who +
         "without a cache it is right, with one it is not: its queries are rotated by a position "
         "read after the owner's append (mlx-lm #1805), or only the current call's keys reach it";
}

std::string likely_cause(const Case& test_case, const ModelConfig& config, const Difference& at) {
  if (at.part == "embedding") return "the embedding itself differs: row, scale or precision";
  if (at.part == "per_layer_inputs") return "the per-layer inputs differ: table, row or scale";
  if (at.part == "logits" && at.layer < 0) return session_cause(test_case.property, nullptr, 0);
  if (at.layer < 0 || at.layer >= config.num_layers) return "";
  const LayerPlan layer = plan_layers(config)[at.layer];
  if (at.part == "attention") {
    const std::string padded = padded_ring_cause(test_case, layer, at);
    if (!padded.empty()) return padded;
    const std::string session = session_cause(test_case.property, &layer, at.token);
    return session.empty() ? attention_cause(test_case.property, layer, at.token) : session;
  }
  if (at.part == "output") {
    return fmt::format(
        "the attention of layer {} agrees, its output does not: feed-forward, per-layer "
        "input or layer scalar",
        at.layer);
  }
  return "";
}

}  // namespace kvconform
