// The draws themselves: a split of the random state for each, handed to a RapidCheck generator.
#include "properties/generators/draw.h"

#include <rapidcheck.h>

namespace kvconform {

Draw::Draw(const rc::Random& random) : random_(std::make_unique<rc::Random>(random)) {}
Draw::~Draw() = default;

int Draw::between(int low, int high) {
  const rc::Random part = random_->split();
  return rc::gen::inRange(low, high + 1)(part, rc::kNominalSize).value();
}

std::uint64_t Draw::bits() {
  rc::Random part = random_->split();
  return part.next();
}

}  // namespace kvconform
