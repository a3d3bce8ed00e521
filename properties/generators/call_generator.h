// Random prompts and calls for a model: lengths around the window, chunks of 1, 2, W − 1, W, W + 1,
// 2W and at random, the next turn of a chat after decoding, ragged batches. Sessions that are cut
// back, copied, reordered, saved and restored: session_life.h.
#pragma once

#include "properties/generators/draw.h"
#include "properties/property.h"

namespace kvconform {

/// What call generators must know of a model.
struct PromptBounds {
  int vocab_size = 0;
  int window = 0;           ///< of its sliding layers; 0: none
  int least = 1, most = 1;  ///< tokens of a row
  int page = 0;             ///< cells that real engines reserve at once; 0: too dear to cross
  bool cache = true;        ///< false for models that can only be scored
};

/// From the config of a spec and the size of a case. Opens the folder of a checkpoint.
PromptBounds prompt_bounds(const ModelSpec& model, CaseSize size);

std::vector<int> draw_tokens(Draw& draw, const PromptBounds& bounds, int count);

/// A length near a multiple of the window, or anywhere.
int draw_length(Draw& draw, const PromptBounds& bounds);

/// Lengths of chunks that sum to `total`, in one of the styles above.
std::vector<int> draw_chunks(Draw& draw, const PromptBounds& bounds, int total);

/// One session with `batch` rows, each fed its prompt in chunks of its own.
std::vector<Call> draw_chunked_prompt(Draw& draw, const PromptBounds& bounds, int batch);

/// One score request of one to three rows.
std::vector<Call> draw_score(Draw& draw, const PromptBounds& bounds);

}  // namespace kvconform
