// Drawing prompts and chunkings.
#include "properties/generators/call_generator.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "properties/generators/model_generator.h"
#include "properties/shrinking.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

Call open_call(int session, int batch, int capacity) {
  Call call;
  call.kind = Call::Kind::open;
  call.session = session;
  call.batch = batch;
  call.capacity = capacity;
  return call;
}

Call extend_call(int session, TokenRows rows) {
  Call call;
  call.kind = Call::Kind::extend;
  call.session = session;
  call.tokens = std::move(rows);
  return call;
}

}  // namespace

PromptBounds prompt_bounds(const ModelSpec& model, CaseSize size) {
  const ModelConfig config = config_of(model);
  PromptBounds bounds;
  bounds.vocab_size = std::min(
      config.vocab_size, config.family == Family::gemma4 && config.hidden_size_per_layer_input > 0
                             ? config.vocab_size_per_layer_input
                             : config.vocab_size);
  const bool slides =
      std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::sliding) > 0;
  bounds.window = slides ? config.sliding_window : 0;
  bounds.cache = !config.bidirectional_all;
  bounds.least = size == CaseSize::smoke ? 3 : 5;
  bounds.most = size == CaseSize::smoke ? 12 : size == CaseSize::deep ? 96 : 24;
  // Caches of llama.cpp and mlx-lm grow by 256 positions. Small models only: it takes time.
  const bool small = size == CaseSize::standard && model.folder.empty() && config.num_layers <= 5;
  if (small && bounds.cache) bounds.page = 256;
  if (size == CaseSize::emulated && model.folder.empty() && has_long_prompts(model.weights)) {
    bounds.least = 65;
    bounds.most = 90;
  }
  return bounds;
}

std::vector<int> draw_tokens(Draw& draw, const PromptBounds& bounds, int count) {
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(draw.between(0, bounds.vocab_size - 1));
  return tokens;
}

int draw_length(Draw& draw, const PromptBounds& bounds) {
  const int anywhere = draw.between(bounds.least, bounds.most);
  const int windows = draw.between(1, 2);
  const int offset = draw.between(-1, 1);
  const bool near_window = draw.chance(40);
  if (bounds.window == 0 || !near_window) return anywhere;
  return std::clamp(windows * bounds.window + offset, 1, bounds.most);
}

std::vector<int> draw_chunks(Draw& draw, const PromptBounds& bounds, int total) {
  const int w = std::max(1, bounds.window);
  const int fixed = draw.one_of({1, 2, 3, w - 1, w, w + 1, 2 * w, total});
  const bool at_random = draw.chance(35);
  const int decoded = draw.chance(40) ? draw.between(1, 3) : 0;  // single tokens before the rest
  const bool next_turn = draw.chance(60);  // after them the rest comes at once, as in a chat
  std::vector<int> chunks;
  for (int left = total; left > 0; left -= chunks.back()) {
    const int drawn = draw.between(1, left);
    int chunk = at_random ? drawn : std::clamp(fixed, 1, left);
    const int index = static_cast<int>(chunks.size());
    if (decoded > 0 && index == 0) chunk = std::min(chunk, std::max(1, total / 2));
    if (index >= 1 && index <= decoded) chunk = 1;
    if (decoded > 0 && index == decoded + 1 && next_turn) chunk = left;
    chunks.push_back(chunk);
  }
  return chunks;
}

std::vector<Call> draw_chunked_prompt(Draw& draw, const PromptBounds& bounds, int batch) {
  TokenRows prompts;
  std::vector<std::vector<int>> chunks;
  std::size_t steps = 0;
  int longest = 0;
  for (int r = 0; r < batch; ++r) {
    const int length = draw_length(draw, bounds);
    prompts.push_back(draw_tokens(draw, bounds, length));
    chunks.push_back(draw_chunks(draw, bounds, length));
    steps = std::max(steps, chunks.back().size());
    longest = std::max(longest, length);
  }
  std::vector<Call> calls = {open_call(0, batch, longest + draw.between(0, 3))};
  std::vector<int> fed(batch, 0);
  for (std::size_t step = 0; step < steps; ++step) {
    TokenRows rows(batch);
    for (int r = 0; r < batch; ++r) {
      if (step >= chunks[r].size()) continue;
      const auto begin = prompts[r].begin() + fed[r];
      rows[r].assign(begin, begin + chunks[r][step]);
      fed[r] += chunks[r][step];
    }
    calls.push_back(extend_call(0, std::move(rows)));
  }
  return calls;
}

std::vector<Call> draw_score(Draw& draw, const PromptBounds& bounds) {
  Call call;
  call.kind = Call::Kind::score;
  const int rows = draw.one_of({1, 1, 2, 3});
  for (int r = 0; r < rows; ++r) {
    const int length = draw_length(draw, bounds);
    call.tokens.push_back(draw_tokens(draw, bounds, length));
  }
  return {call};
}

}  // namespace kvconform
