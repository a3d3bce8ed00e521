// What a call of a model costs at least, from configuration and plan alone: bytes that no
// implementation can avoid and the multiplications of the formulas. Needs no weights, so it also
// tells about models of real size.
//
//   const ModelCost cost(config, plan, 2);          // bfloat16: 2 bytes a number
//   cost.of({.past = 512, .tokens = 1}).bytes();    // a token of decoding
//
// Counted: each weight once a call (experts: the chosen ones of one token), the rows of embedding
// tables that the tokens name, keys and values of earlier positions once for each layer that sees
// them, new keys and values once, logits. Not counted: activations, which may stay on the chip.
#pragma once

#include <vector>

#include "reference/layer_plan.h"

namespace kvconform::bench {

struct CostedCall {
  int rows = 1;            ///< of the batch, each with the same past and tokens
  int past = 0;            ///< tokens that a row already holds
  int tokens = 1;          ///< new ones a row
  bool last_only = false;  ///< logits of each row's last token only
  bool skip = true;        ///< with last_only: the others leave after the last owner's append
};

struct CallCost {
  double weight_bytes = 0, table_bytes = 0;
  double cache_read_bytes = 0, cache_written_bytes = 0;
  double logit_bytes = 0;
  double multiply_adds = 0;
  double bytes() const {
    return weight_bytes + table_bytes + cache_read_bytes + cache_written_bytes + logit_bytes;
  }
};

class ModelCost {
 public:
  ModelCost(const ModelConfig& config, std::vector<LayerPlan> plan, int bytes_per_number);

  CallCost of(const CostedCall& call) const;
  /// Keys and values of `length` tokens: full layers keep all, sliding ones their window − 1.
  double cache_bytes(int length) const;
  /// The same if every layer kept its own.
  double cache_bytes_unshared(int length) const;

 private:
  /// Multiplications a token of one layer: what is computed for every token, and what only for
  /// those that go on after the last owner's append.
  struct LayerWork {
    double before_append = 0, after_append = 0;
  };
  double kept(const LayerPlan& layer, int length) const;
  double token_bytes(const LayerPlan& layer) const;
  void add_tensor(const std::string& name, const std::vector<std::int64_t>& shape);
  void add_layer_tensor(const std::string& name, const std::vector<std::int64_t>& shape);
  double attention_of(const CostedCall& call, const LayerPlan& layer, bool last_only) const;

  ModelConfig config_;
  std::vector<LayerPlan> plan_;
  int bytes_per_number_;
  int last_owner_ = 0;
  double weight_numbers_ = 0, table_numbers_per_token_ = 0;
  double once_a_token_ = 0, once_an_output_ = 0;  ///< outside the layers
  std::vector<LayerWork> layers_;
};

}  // namespace kvconform::bench
