// Drawing from RapidCheck's generators one value after the other.
//
//   Draw draw(key);
//   const int window = draw.one_of({1, 2, 3, 4, 8});
//   const int layers = draw.between(3, 8);
//
// Each draw is a statement of its own: arguments of one call are evaluated in an order that
// compilers choose, and a case must not depend on the compiler. RapidCheck's headers stay in
// draw.cpp: they are slow to compile.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

namespace rc {
class Random;
}

namespace kvconform {

class Draw {
 public:
  explicit Draw(const rc::Random& random);
  ~Draw();
  Draw(const Draw&) = delete;
  Draw& operator=(const Draw&) = delete;

  int between(int low, int high);  ///< both included
  bool chance(int percent) { return between(0, 99) < percent; }
  std::uint64_t bits();

  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[between(0, static_cast<int>(choices.size()) - 1)];
  }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return one_of(std::vector<T>(choices));
  }

 private:
  std::unique_ptr<rc::Random> random_;
};

}  // namespace kvconform
