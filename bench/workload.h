// Something to time: prepared once, run again and again, and able to say whether its result is
// right. Programs hand a list of them to `benchmark_main` (benchmark_program.h). To add one: an
// entry in the list of its program, with a name that reads KIND/WHAT/parameter:value.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvconform::bench {

/// What one run needs and does, by name (counters.h); the same on every machine.
using Counts = std::map<std::string, double>;

class Workload {
 public:
  virtual ~Workload() = default;
  virtual void run() = 0;  ///< what is timed
  /// Judges the result of the last run: empty, or what is wrong with it.
  virtual std::string wrong() = 0;
  virtual Counts counts() = 0;
};

enum class Size { smoke, standard, deep };

struct NamedWorkload {
  std::string name;
  std::function<std::unique_ptr<Workload>()> prepare;
  Size from = Size::smoke;  ///< the smallest size that it is part of
};

using Workloads = std::vector<NamedWorkload>;

}  // namespace kvconform::bench
