// SHA-256 by OpenSSL's EVP interface.
#include "golden/sha256.h"

#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/error.h"

namespace kvconform {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void require(bool done) {
  if (done) return;
  throw HarnessError("KV3011", "OpenSSL refuses to compute SHA-256",
                     "check the OpenSSL configuration of this machine");
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  require(state_->context && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(const void* data, std::size_t size) {
  require(EVP_DigestUpdate(state_->context, data, size) == 1);
}

void Sha256::update(const Logits& logits) {
  static_assert(std::endian::native == std::endian::little, "logits are hashed little-endian");
  std::vector<float> narrow(logits.values.begin(), logits.values.end());
  // The sign and payload of a NaN differ between processors; that it is one is all that counts.
  for (float& x : narrow) x = std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x;
  update(narrow.data(), narrow.size() * sizeof(float));
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(state_->context, digest, &size) == 1);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

std::string sha256(const Logits& logits) {
  Sha256 hash;
  hash.update(logits);
  return hash.hex();
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

}  // namespace kvconform
