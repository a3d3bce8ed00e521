// SHA-256 over logits: what a golden's identity is. Logits are hashed as float32, little-endian,
// row after row, so that any program in any language can compute the same hash from the same
// numbers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "reference/trace.h"

namespace kvconform {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(const void* data, std::size_t size);
  /// Every value rounded to float32 (exact for a float32 subject), little-endian. NaNs count as one
  /// value.
  void update(const Logits& logits);
  /// 64 hexadecimal digits; the object is finished afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(const Logits& logits);
std::string sha256(std::string_view text);

}  // namespace kvconform
