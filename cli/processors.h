// How many threads a command uses where nothing else is said.
#pragma once

#include <algorithm>
#include <thread>

namespace kvconform::cli {

inline int processors() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace kvconform::cli
