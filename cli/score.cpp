// score: logits of a checkpoint for one prompt: the top tokens after it, a hash over all positions,
// and the whole array as a file for other programs.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/processors.h"
#include "cli/words.h"
#include "golden/sha256.h"
#include "properties/case.h"
#include "properties/finite_weights.h"
#include "properties/subject_registry.h"
#include "reference/checkpoint.h"
#include "reference/counted.h"
#include "reference/error.h"
#include "reference/model.h"
#include "reference/safetensors.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::string folder, tokens, tokens_file, subject = "reference";
  std::optional<std::string> save;
  int top = 5;
};

std::vector<int> prompt_of(const Options& options) {
  if (options.tokens_file.empty()) return parse_tokens(options.tokens, "--tokens");
  return parse_tokens(read_text(options.tokens_file), options.tokens_file);
}

void require_in_vocabulary(const std::vector<int>& tokens, int vocab_size) {
  for (int token : tokens)
    if (token >= vocab_size)
      throw Error("KV4005",
                  fmt::format("the token id {} is outside the vocabulary of {}", token, vocab_size),
                  fmt::format("give ids from 0 to {}", vocab_size - 1));
}

using CheckpointPtr = std::shared_ptr<const Checkpoint>;

template <class N>
Logits score_with(const CheckpointPtr& checkpoint, const std::vector<int>& tokens) {
  return to_logits(Model<N>(checkpoint, processors()).score({tokens}));
}

Logits score_by_subject(const std::filesystem::path& folder, const std::vector<int>& tokens,
                        const std::string& name) {
  ModelSpec spec;
  spec.folder = folder;
  try {
    const std::unique_ptr<Subject> subject = make_subject(name);
    return subject->score(subject->load(*make_model_source(spec)), {tokens}).logits;
  } catch (const SubjectRefusal& refusal) {
    throw Error("KV4010", fmt::format("{} refused: {}", name, refusal.what()),
                "give a model and tokens that the subject takes");
  }
}

// The reference is called directly, with a thread a processor: a real checkpoint takes minutes on
// one. Subjects are made for many small cases at once and use one thread each.
Logits score(const Options& options, const CheckpointPtr& checkpoint,
             const std::vector<int>& tokens) {
  const std::string& subject = options.subject;
  if (subject == "reference") return score_with<Float32>(checkpoint, tokens);
  if (subject == "reference:double") return score_with<Float64>(checkpoint, tokens);
  if (subject == "reference:bfloat16") return score_with<BFloat16>(checkpoint, tokens);
  if (subject == "reference:float16") return score_with<Float16>(checkpoint, tokens);
  return score_by_subject(options.folder, tokens, subject);
}

// Best first; of equal logits the lower id comes first, and NaN last of all.
std::vector<int> best_tokens(const double* logits, int vocab, int count) {
  std::vector<int> ids(static_cast<std::size_t>(vocab));
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, vocab);
  const auto rank = [&](int id) { return std::isnan(logits[id]) ? -INFINITY : logits[id]; };
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](int a, int b) {
    return rank(a) > rank(b) || (rank(a) == rank(b) && a < b);
  });
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

void print_scores(const Logits& logits, const Options& options) {
  print("{}, vocabulary {}, computed by {}\n", counted(logits.positions, "position"), logits.vocab,
        options.subject);
  const double* last = logits.row(logits.positions - 1);
  print("most likely after the last token:\n");
  for (int token : best_tokens(last, logits.vocab, options.top))
    print("  {:>8}  {:.6f}\n", token, last[token]);
  print("sha256 {}\n", sha256(logits));
}

// The writer's file beside the target, which becomes the target once it is whole.
void remove_partial_files_of(const std::filesystem::path& target) {
  const std::string begin = fmt::format(".{}.{}.", target.filename().string(), getpid());
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(target.parent_path(), gone))
    if (entry.path().filename().string().rfind(begin, 0) == 0)
      std::filesystem::remove(entry.path(), gone);
}

void warn(const std::string& text) {
  write_error(fmt::format("{}: {}\n", coloured("warning", Colour::yellow, Stream::error), text));
}

// NaN and infinity in weights or logits. Weights are looked through only where that costs nothing
// against the forward pass; a real-size checkpoint is judged by its logits.
void warn_of_non_finite(const Checkpoint& checkpoint, const Logits& logits) {
  constexpr std::uint64_t few_bytes = std::uint64_t{256} << 20;
  if (bytes_of_weights(checkpoint) <= few_bytes)
    if (const auto place = find_non_finite(checkpoint))
      warn(fmt::format("the checkpoint holds {}", place->text()));
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    if (std::isfinite(logits.values[i])) continue;
    const auto vocab = static_cast<std::size_t>(logits.vocab);
    return warn(fmt::format("the logits hold {}, first at position {}, token id {}",
                            std::isnan(logits.values[i]) ? "NaN" : "an infinity", i / vocab,
                            i % vocab));
  }
}

void save(const Logits& logits, const std::filesystem::path& file) {
  TensorTable table;
  std::byte* bytes = table.add("logits", Dtype::f32, {logits.positions, logits.vocab});
  for (std::size_t i = 0; i < logits.values.size(); ++i) {
    const float value = static_cast<float>(logits.values[i]);
    std::memcpy(bytes + i * sizeof value, &value, sizeof value);
  }
  write_safetensors(file, table);
}

ExitCode run(const Options& options) {
  const std::filesystem::path target =
      options.save ? output_file(*options.save, "--save", options.folder) : "";
  const std::vector<int> tokens = prompt_of(options);
  end_on_interrupt([target] {
    if (!target.empty()) remove_partial_files_of(target);
  });
  const CheckpointPtr checkpoint = Checkpoint::open(options.folder);
  require_in_vocabulary(tokens, checkpoint->config().vocab_size);
  const Logits logits = score(options, checkpoint, tokens);
  print_scores(logits, options);
  warn_of_non_finite(*checkpoint, logits);
  if (options.save) save(logits, target);
  return ExitCode::conforms;
}

}  // namespace

Action add_score(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("DIR", options->folder, "a checkpoint folder in Hugging Face layout")->required();
  auto* tokens =
      app.add_option("--tokens", options->tokens, "token ids of the prompt")->type_name("1,2,3");
  auto* file = app.add_option("--tokens-file", options->tokens_file, "or a file of them")
                   ->type_name("FILE")
                   ->excludes(tokens);
  app.add_option("--save", options->save, "write the logits, float32 [tokens, vocab_size]")
      ->type_name("FILE.safetensors");
  app.add_option("--subject", options->subject, "what computes them")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--top", options->top, "how many tokens to print")
      ->check(whole_number(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  return [options, tokens, file] {
    if (tokens->empty() && file->empty())
      throw Error("KV4003", "score needs a prompt", "add --tokens 1,2,3 or --tokens-file FILE");
    return run(*options);
  };
}

}  // namespace kvconform::cli
