// Drawing from RapidCheck's generators one value after the other.
//
//   Draw draw(key);
//   const int window = draw.one_of({1, 2, 3, 4, 8});
//   const int layers = draw.between(3, 8);
//
// Each draw is a statement of its own: arguments of one call are evaluated in an order that compilers
// choose, and a case must not depend on the compiler.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace kvconform {

class Draw {
 public:
  explicit Draw(const rc::Random& random) : random_(random) {}
  explicit Draw(std::uint64_t key) : random_(key) {}

  template <class T>
  T from(const rc::Gen<T>& gen) {
    const rc::Random part = random_.split();
    return gen(part, rc::kNominalSize).value();
  }

  int between(int low, int high) { return from(rc::gen::inRange(low, high + 1)); }  ///< inclusive
  bool chance(int percent) { return between(0, 99) < percent; }
  std::uint64_t bits() {
    rc::Random part = random_.split();
    return part.next();
  }

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return from(rc::gen::elementOf(std::vector<T>(choices)));
  }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return from(rc::gen::elementOf(choices));
  }

 private:
  rc::Random random_;
};

}  // namespace kvconform
