// Edit distance for hints, strict parsing of lists (see words.h).
#include "cli/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "reference/error.h"

namespace kvconform::cli {
namespace {

// Levenshtein distance, one row at a time.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

constexpr std::string_view kBlank = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

int parse_token(std::string_view word, const std::string& origin) {
  int token = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
  if (error == std::errc::result_out_of_range)
    throw Error("KV4004", fmt::format("{}: the token id {} is out of range", origin, word),
                "give ids of the vocabulary");
  if (error != std::errc() || end != word.data() + word.size() || token < 0)
    throw Error("KV4004", fmt::format("{}: \"{}\" is not a token id", origin, word),
                "give ids as decimal numbers separated by commas, e.g. 1,2,3");
  return token;
}

// One comma-separated field; spaces and line ends separate ids as well.
void parse_field(std::string_view field, const std::string& origin, std::vector<int>& tokens) {
  if (trimmed(field).empty())
    throw Error("KV4004", fmt::format("{}: an entry of the token list is empty", origin),
                "give ids as decimal numbers separated by commas, e.g. 1,2,3");
  for (field = trimmed(field); !field.empty();) {
    const std::size_t end = std::min(field.find_first_of(kBlank), field.size());
    tokens.push_back(parse_token(field.substr(0, end), origin));
    field = trimmed(field.substr(end));
  }
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t fewest = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edits(word, candidate);
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string hint = nearest(word, candidates);
  return hint.empty() ? "" : fmt::format("; did you mean {}?", hint);
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<int> parse_tokens(const std::string& text, const std::string& origin) {
  std::vector<int> tokens;
  std::string_view rest = trimmed(text);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    parse_field(rest.substr(0, comma), origin, tokens);
    if (more) rest = rest.substr(comma + 1);
  }
  return tokens;
}

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = slash ? std::from_chars(first.ptr + 1, end, shard.count) : first;
  if (!slash || second.ec != std::errc() || second.ptr != end || shard.index < 1 ||
      shard.index > shard.count)
    throw Error("KV4009", fmt::format("--shard {} is not a shard", text),
                "write I/N with 1 <= I <= N, e.g. --shard 2/3");
  return shard;
}

}  // namespace kvconform::cli
