// Small readings of what people type: the word they may have meant, and numbers without surprises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvconform::cli {

/// The candidate with the fewest edits to `word`, or "" where none is near (more than two
/// letters, or a third of them, would have to change).
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// "; did you mean check?" or "".
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

/// "a, b, c"
std::string listed(const std::vector<std::string>& words);

/// Token ids separated by commas, spaces or line ends; decimal digits only, no empty entries, at
/// least one. `origin` is named in errors. Throws Error KV4004.
std::vector<int> parse_tokens(const std::string& text, const std::string& origin);

/// Shard I of N, written I/N with 1 ≤ I ≤ N. Throws Error KV4009.
struct Shard {
  int index = 1, count = 1;
};
Shard parse_shard(const std::string& text);

}  // namespace kvconform::cli
