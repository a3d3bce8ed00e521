// What a running check shows on standard error: on a terminal one line that rewrites itself, else
// plain lines, one for each finished property and at most one every ten seconds in between.
#pragma once

#include <string>

#include "properties/runner.h"

namespace kvconform::cli {

class ProgressLine {
 public:
  ProgressLine();
  void update(const Progress& progress);
  void finished(const PropertyResult& result);
  /// Says what runs now where no cases are counted (goldens, oracle data).
  void say(const std::string& line);
  void clear();

 private:
  std::string text(const Progress& progress);

  bool terminal_;
  bool shown_ = false;
  double last_plain_line_ = 0;  // seconds since the run began
  int step_ = 0;                // the pair of property and subject that ran last …
  double step_began_ = 0;       // … and when its first case was seen, for the rate
};

/// "42 s", "3 min 20 s"
std::string duration(double seconds);

}  // namespace kvconform::cli
