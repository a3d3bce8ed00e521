// Prints one line an item, `name count hash`: everything whose bits the reference promises to be
// the same with any compiler, any optimisation and on any architecture. bit_stability_test.sh
// builds this file many ways and compares the lines; the values themselves are judged elsewhere.
//
// It links nothing but the reference, SLEEF and header-only libraries, so that it can be
// cross-compiled. To add an item: one more call of `print`.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "reference/checkpoint.h"
#include "reference/elementary.h"
#include "reference/model.h"
#include "reference/normal_quantile.h"
#include "reference/random.h"
#include "reference/random_weights.h"

namespace kvconform {
namespace {

/// FNV-1a over the bytes of numbers in the order of their values' bits, so that the byte order of
/// the machine does not matter. Every NaN counts as the same one: their signs differ between
/// processors.
class BitHash {
 public:
  void add(double value) {
    add_word(std::isnan(value) ? 0x7ff8000000000000ULL : std::bit_cast<std::uint64_t>(value));
  }
  void add_word(std::uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ ((word >> (8 * byte)) & 0xff)) * 0x100000001b3ULL;
    }
    ++count_;
  }
  void print(const std::string& name) const {
    std::printf("%s %zu %016llx\n", name.c_str(), count_, static_cast<unsigned long long>(hash_));
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::size_t count_ = 0;
};

void hash_random_stream() {
  RandomStream stream(stream_key(1, "bit_hashes"));
  BitHash words, numbers;
  for (int i = 0; i < 10000; ++i) {
    words.add_word(stream.next());
    numbers.add(RandomStream::symmetric(stream.next()));
    words.add_word(stream.below(1000003));
    numbers.add(stream.between(-7, 1 << 20));
  }
  words.print("random/words");
  numbers.print("random/numbers");
}

/// Numbers of both signs and all sizes from 2^-24 to 2^7, where a model's activations lie.
template <class Real>
std::vector<Real> sweep(int count) {
  RandomStream stream(stream_key(2, "sweep"));
  std::vector<Real> values;
  for (int i = 0; i < count; ++i) {
    const Real mantissa = RandomStream::symmetric(stream.next()) +
                          std::ldexp(Real(RandomStream::symmetric(stream.next())), -24);
    values.push_back(std::ldexp(mantissa, stream.between(-24, 7)));
  }
  return values;
}

template <class Real, class Function>
void hash_function(const std::string& name, Function function) {
  BitHash hash;
  for (const Real x : sweep<Real>(100000)) hash.add(function(x));
  hash.print("elementary/" + name);
}

void hash_elementary_functions() {
  hash_function<float>("exp/float", [](float x) { return exact_exp(x); });
  hash_function<float>("tanh/float", [](float x) { return exact_tanh(x); });
  hash_function<float>("sin/float", [](float x) { return exact_sin(x); });
  hash_function<float>("cos/float", [](float x) { return exact_cos(x); });
  hash_function<float>("sqrt/float", [](float x) { return exact_sqrt(std::fabs(x)); });
  hash_function<float>("pow/float", [](float x) { return exact_pow(1e6f, x / 128); });
  hash_function<float>("bfloat16", [](float x) { return widen_bf16(narrow_bf16(x)); });
  hash_function<float>("float16", [](float x) { return widen_f16(narrow_f16(x)); });
  hash_function<double>("exp/double", [](double x) { return exact_exp(x); });
  hash_function<double>("tanh/double", [](double x) { return exact_tanh(x); });
  hash_function<double>("sin/double", [](double x) { return exact_sin(x); });
  hash_function<double>("cos/double", [](double x) { return exact_cos(x); });
  hash_function<double>("sqrt/double", [](double x) { return exact_sqrt(std::fabs(x)); });
  hash_function<double>("pow/double", [](double x) { return exact_pow(1e6, x / 128); });
  hash_function<double>("log/double", [](double x) { return exact_log(std::fabs(x)); });
  hash_function<double>("normal_quantile",
                        [](double x) { return normal_quantile((x + 129) / 258); });
}

using Tokens = std::vector<int>;

/// Tokens that every table of the model has.
Tokens prompt_for(const ModelConfig& config, const std::string& name, int length) {
  int bound = config.vocab_size;
  if (config.hidden_size_per_layer_input > 0) {
    bound = std::min(bound, config.vocab_size_per_layer_input);
  }
  RandomStream stream(stream_key(3, name));
  Tokens tokens(length);
  for (int& token : tokens) token = static_cast<int>(stream.below(bound));
  return tokens;
}

template <class S>
void add(BitHash& hash, const Matrix<S>& logits) {
  for (const S& value : logits.values) hash.add(double(value));
}

/// One row all at once, then two ragged rows in chunks of 5, 1 and 13: past every window.
template <class N>
void hash_logits(const std::string& name, std::shared_ptr<const Checkpoint> checkpoint) {
  const Tokens prompt = prompt_for(checkpoint->config(), name, 19);
  const Model<N> model(checkpoint);
  BitHash score, extend;
  add(score, model.score({prompt}));
  score.print("score/" + name + "/" + N::name);
  if (checkpoint->config().bidirectional_all) return;
  auto cache = model.open({.batch = 2, .capacity = 32});
  for (const auto& [from, to] : {std::pair{0, 5}, {5, 6}, {6, 19}}) {
    const Tokens chunk(prompt.begin() + from, prompt.begin() + to);
    add(extend, model.extend(cache, {chunk, from == 5 ? Tokens{} : chunk}));
  }
  extend.print("extend/" + name + "/" + N::name);
}

/// Random weights for a configuration: names, and values widened from the format they are stored
/// in.
void hash_random_weights(const std::string& name, const nlohmann::json& config) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const TensorTable table = random_weights(config, {.seed = 4, .dtype = dtype});
    BitHash hash;
    for (const auto& [tensor, view] : table.tensors) {
      hash.add_word(stream_key(0, tensor));
      for (std::int64_t i = 0; i < view.count(); ++i) hash.add(element(view, i));
    }
    hash.print("weights/" + name + "/" + to_string(dtype));
  }
}

/// The oracle's models cover every operation of both families; prompts here are our own.
void hash_models(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> models;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  for (const auto& path : models) {
    const auto checkpoint = Checkpoint::open(path);
    const std::string name = path.filename().string();
    hash_random_weights(name, checkpoint->config_json());
    hash_logits<Float32>(name, checkpoint);
    hash_logits<Float64>(name, checkpoint);
    hash_logits<BFloat16>(name, checkpoint);
    hash_logits<Float16>(name, checkpoint);
    const NoiseScope noise(noise_of("bfloat16", 1));
    hash_logits<Noisy>(name, checkpoint);
  }
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bit_hashes FOLDER_OF_MODELS\n");
    return 2;
  }
  try {
    kvconform::hash_random_stream();
    kvconform::hash_elementary_functions();
    kvconform::hash_models(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bit_hashes: %s\n", error.what());
    return 1;
  }
}
