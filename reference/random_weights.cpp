// Drawing weights. Number i of a tensor is center + spread · s with s = symmetric(stream.at(i)) in
// [-1, 1), computed in float with one multiplication and one addition and rounded to the tensor's
// format at the very end. Spreads use nothing but + · / and sqrt, which IEEE rounds the same
// everywhere.
#include "reference/random_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <vector>

#include "reference/checkpoint_files.h"
#include "reference/partial_file.h"
#include "reference/random.h"
#include "reference/safetensors_layout.h"

namespace kvconform {

namespace {

struct Draw {
  float center = 0, spread = 0;
  bool away_from_zero =
      false;  ///< moves every number half a unit away from 0, so that none switches its path off
};

Draw scale_around_one() {
  return {1.0F, 0.5F};
}
Draw around_zero(double spread) {
  return {0.0F, static_cast<float>(spread)};
}

// Queries and keys have unit root mean square before these weights, so that the standard deviation
// of q · k over D numbers is √D · mean(w²). Uniform w in c · [½, 1½] has mean(w²) = c² · 13/12:
// this c makes it 1.75 for any D, enough to prefer some keys and far from attending to one alone.
Draw query_key_norm(std::int64_t head_dim) {
  const double c = std::sqrt(1.75 * 12.0 / 13.0 / std::sqrt(static_cast<double>(head_dim)));
  return {static_cast<float>(c), static_cast<float>(c / 2)};
}

// A uniform number in [-a, a) has variance a² / 3: with a = √(3 / inputs) a product keeps the size
// of its input.
Draw projection(std::int64_t inputs, double gain = 1.0) {
  return around_zero(gain * std::sqrt(3.0 / static_cast<double>(inputs)));
}

Draw draw_of(const TensorSpec& spec, const ModelConfig& config) {
  const std::string_view name = spec.name;
  const auto is = [name](std::string_view end) { return name.ends_with(end); };
  if (is("q_norm.weight") || is("k_norm.weight")) return query_key_norm(spec.shape[0]);
  if (is("norm.weight") || name.find("layernorm") != name.npos) return scale_around_one();
  if (is("router.scale") || is("per_expert_scale")) return scale_around_one();
  if (is("layer_scalar")) return {0.85F, 0.35F};
  if (is("correct_output_scale")) return {0.0F, 1.0F, true};
  if (is(".bias") || is("prediction_coefs.weight") || is("correction_coefs.weight"))
    return around_zero(0.3);
  // tanh of (router · x / H), x of unit size: this gives arguments of about 0.7.
  if (is("modality_router.weight")) return around_zero(0.7 * std::sqrt(3.0 * config.hidden_size));
  // softmax over (proj · x / √H): arguments of about 1.5.
  if (is("router.proj.weight")) return around_zero(1.5 * std::sqrt(3.0));
  // Logits of about 3, and x0 of about three times the size of what one layer adds.
  if (is("embed_tokens.weight") || is("lm_head.weight")) return projection(config.hidden_size, 3.0);
  if (is("embed_tokens_per_layer.weight")) return projection(config.hidden_size_per_layer_input);
  return projection(spec.shape.back());
}

float drawn(const Draw& draw, float symmetric) {
  const float value = draw.center + draw.spread * symmetric;
  return draw.away_from_zero ? value + (value < 0 ? -0.5F : 0.5F) : value;
}

// Narrowing functions as types, so that the inner loop is one for each format.
struct AsFloat {
  float operator()(float value) const { return value; }
};
struct AsHalf {
  std::uint16_t operator()(float value) const { return narrow_f16(value); }
};
struct AsBfloat16 {
  std::uint16_t operator()(float value) const { return narrow_bf16(value); }
};

template <typename Narrow>
void fill(RandomStream stream, const Draw& draw, std::uint64_t begin, std::uint64_t count,
          std::byte* out) {
  const Narrow narrow;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto number = narrow(drawn(draw, RandomStream::symmetric(stream.at(begin + i))));
    std::memcpy(out + i * sizeof number, &number, sizeof number);
  }
}

// One tensor to be filled, from any index on.
struct Source {
  std::uint64_t key = 0;
  Draw draw;
  Dtype dtype = Dtype::f32;

  void generate(std::uint64_t begin, std::uint64_t count, std::byte* out) const {
    const RandomStream stream(key);
    if (dtype == Dtype::f32) return fill<AsFloat>(stream, draw, begin, count, out);
    if (dtype == Dtype::f16) return fill<AsHalf>(stream, draw, begin, count, out);
    fill<AsBfloat16>(stream, draw, begin, count, out);
  }
};

Source source_of(const TensorSpec& spec, const ModelConfig& config, const WeightsRecipe& recipe) {
  Draw draw = draw_of(spec, config);
  if (spec.dead && recipe.dead_tensors == DeadTensors::nan) draw = {std::nanf(""), 0.0F};
  return {stream_key(recipe.seed, spec.name), draw, recipe.dtype};
}

// Names as transformers saves a text model.
std::string stored_name(const TensorSpec& spec) {
  return spec.name == "lm_head.weight" ? spec.name : "model." + spec.name;
}

std::vector<TensorSpec> wanted_specs(const ModelConfig& config, const WeightsRecipe& recipe) {
  std::vector<TensorSpec> specs = tensor_specs(config, plan_layers(config));
  if (recipe.dead_tensors == DeadTensors::absent)
    std::erase_if(specs, [](const TensorSpec& spec) { return spec.dead; });
  return specs;
}

// A piece of a tensor: what one thread generates and writes at a time.
struct Piece {
  const Source* source;
  std::uint64_t begin, count, file_offset;
};

constexpr std::uint64_t piece_size = 1 << 21;  // numbers: 4 to 8 MB

std::vector<Piece> cut(const std::vector<LaidOutTensor>& tensors,
                       const std::map<std::string, Source>& sources) {
  std::vector<Piece> pieces;
  for (const LaidOutTensor& tensor : tensors) {
    const auto width = static_cast<std::uint64_t>(byte_size(tensor.dtype));
    const std::uint64_t count = tensor.bytes / width;
    for (std::uint64_t begin = 0; begin < count; begin += piece_size)
      pieces.push_back({&sources.at(tensor.name), begin, std::min(piece_size, count - begin),
                        tensor.file_offset + begin * width});
  }
  return pieces;
}

// Threads take pieces in order; the first failure stops them all and is thrown again here.
void write_pieces(const std::vector<Piece>& pieces, PartialFile& out) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto work = [&] {
    std::vector<std::byte> buffer(piece_size * sizeof(float));
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const Piece& piece = pieces[i];
      piece.source->generate(piece.begin, piece.count, buffer.data());
      out.write_at(piece.file_offset, buffer.data(),
                   piece.count * static_cast<std::uint64_t>(byte_size(piece.source->dtype)));
    }
  };
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      next = pieces.size();
      const std::lock_guard lock(failure_lock);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const unsigned helpers = std::clamp(std::thread::hardware_concurrency(), 2U, 8U) - 1;
  for (unsigned i = 0; i < helpers && i < pieces.size(); ++i) threads.emplace_back(guarded);
  guarded();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

const char* torch_name(Dtype dtype) {
  return dtype == Dtype::f32 ? "float32" : dtype == Dtype::f16 ? "float16" : "bfloat16";
}

}  // namespace

TensorTable random_weights(const nlohmann::json& config_json, const WeightsRecipe& recipe) {
  const ModelConfig config = parse_model_config(config_json);
  TensorTable table;
  for (const TensorSpec& spec : wanted_specs(config, recipe)) {
    std::byte* data = table.add(stored_name(spec), recipe.dtype, spec.shape);
    const auto count = static_cast<std::uint64_t>(table.tensors[stored_name(spec)].count());
    source_of(spec, config, recipe).generate(0, count, data);
  }
  return table;
}

void write_random_checkpoint(const std::filesystem::path& folder, const nlohmann::json& config_json,
                             const WeightsRecipe& recipe) {
  const ModelConfig config = parse_model_config(config_json);
  std::vector<LaidOutTensor> tensors;
  std::map<std::string, Source> sources;
  for (const TensorSpec& spec : wanted_specs(config, recipe)) {
    tensors.push_back({stored_name(spec), recipe.dtype, spec.shape});
    sources[stored_name(spec)] = source_of(spec, config, recipe);
  }
  const std::string header = lay_out_safetensors(tensors, {{"format", "pt"}});
  nlohmann::json saved = config_json;
  saved["dtype"] = torch_name(recipe.dtype);

  NewFolder out(folder);
  out.require_space(tensors.back().file_offset + tensors.back().bytes);
  PartialFile weights(out.weights_file());
  weights.write_at(0, header.data(), header.size());
  write_pieces(cut(tensors, sources), weights);
  weights.commit();
  out.write_config(saved.dump(2) + "\n");
  out.commit();
}

}  // namespace kvconform
