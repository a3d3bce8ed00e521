// Prints one line an item, `name count hash`: everything whose bits the reference promises to be
// the same with any compiler, any optimisation and on any architecture. bit_stability_test.sh
// builds this file many ways and compares the lines; the values themselves are judged elsewhere.
//
// It links nothing but the reference, SLEEF and header-only libraries, so that it can be
// cross-compiled. To add an item: one more call of `print`.
#include <sleef.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "reference/random.h"

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
  hash_function<float>("exp/float", Sleef_cinz_expf1_u10purec);
  hash_function<float>("tanh/float", Sleef_cinz_tanhf1_u10purec);
  hash_function<float>("sin/float", Sleef_cinz_sinf1_u10purec);
  hash_function<float>("cos/float", Sleef_cinz_cosf1_u10purec);
  hash_function<float>("sqrt/float", [](float x) { return std::sqrt(std::fabs(x)); });
  hash_function<float>("pow/float",
                       [](float x) { return Sleef_cinz_powf1_u10purec(1e6f, x / 128); });
  hash_function<double>("exp/double", Sleef_cinz_expd1_u10purec);
  hash_function<double>("tanh/double", Sleef_cinz_tanhd1_u10purec);
  hash_function<double>("sin/double", Sleef_cinz_sind1_u10purec);
  hash_function<double>("cos/double", Sleef_cinz_cosd1_u10purec);
  hash_function<double>("log/double",
                        [](double x) { return Sleef_cinz_logd1_u10purec(std::fabs(x)); });
  hash_function<double>("pow/double",
                        [](double x) { return Sleef_cinz_powd1_u10purec(1e6, x / 128); });
}

}  // namespace
}  // namespace kvconform

int main() {
  kvconform::hash_random_stream();
  kvconform::hash_elementary_functions();
}
