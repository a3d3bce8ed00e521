// Plots as inline SVG: they need no script, no font and no network, take the page's colours, and
// are readable in light and dark. Numbers only come in; text is escaped here.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kvconform::bench {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool line = true;  ///< join the points
  bool markers = true;
  bool dashed = false;
  std::vector<std::string> labels;  ///< of the points: shown when the pointer rests on them
};

/// Both axes are logarithmic: lengths, times and rates all span decades.
struct LogPlot {
  std::string title, x_label, y_label;
  std::vector<Series> series;
};
std::string svg(const LogPlot& plot);

struct Bar {
  std::string label;
  double value = 0;
  std::string text;          ///< beside the bar
  double low = 0, high = 0;  ///< interval; none if equal
};
/// Horizontal bars from `base` (0, or 1 for ratios).
struct BarPlot {
  std::string title, x_label;
  std::vector<Bar> bars;
  double base = 0;
};
std::string svg(const BarPlot& plot);

}  // namespace kvconform::bench
