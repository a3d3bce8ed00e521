// Drawing, see plot.h. Coordinates are those of the viewBox; the page scales it.
#include "bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "properties/reports/html_text.h"

namespace kvconform::bench {
namespace {

constexpr double kWidth = 640, kHeight = 360, kLeft = 70, kRight = 16, kTop = 34, kBottom = 48;
constexpr const char* kColours[] = {"#4a7dbd", "#c9743a", "#3f9d6b",
                                    "#a35ab0", "#b5a12e", "#c0504d"};

const char* colour(std::size_t index) {
  return kColours[index % std::size(kColours)];
}

/// Decades that hold all values.
struct Axis {
  double low, high;  ///< log10
  double from, to;   ///< coordinates
  double at(double value) const {
    return from + (std::log10(value) - low) / (high - low) * (to - from);
  }
};

Axis axis(const LogPlot& plot, bool x, double from, double to) {
  double low = INFINITY, high = -INFINITY;
  for (const Series& series : plot.series)
    for (const auto& point : series.points) {
      const double value = std::log10(x ? point.first : point.second);
      low = std::min(low, value);
      high = std::max(high, value);
    }
  if (!(low <= high)) low = 0, high = 1;
  low = std::floor(low * 4 - 0.1) / 4;  // a little room: quarters of a decade
  high = std::ceil(high * 4 + 0.1) / 4;
  return {low, high, from, to};
}

std::string number_text(double value) {
  struct Unit {
    double size;
    const char* letter;
  };
  for (const Unit unit : {Unit{1e12, " T"}, Unit{1e9, " G"}, Unit{1e6, " M"}, Unit{1e3, " k"}})
    if (value >= unit.size) return fmt::format("{:g}{}", value / unit.size, unit.letter);
  return fmt::format("{:g}", value);
}

std::string text_at(double x, double y, const std::string& content, const char* anchor,
                    const char* extra = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, extra, html_text(content));
}

std::string rule(double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--line)\"/>\n",
      x1, y1, x2, y2);
}

/// 1, 2 and 5 of each decade in sight; fewer where there are many decades.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> values;
  const bool wide = axis.high - axis.low > 3;
  for (int decade = int(std::floor(axis.low)); decade <= int(std::ceil(axis.high)); ++decade)
    for (int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10.0, decade), log = std::log10(value);
      const bool inside = log >= axis.low - 1e-9 && log <= axis.high + 1e-9;
      if (inside && (digit == 1 || !wide)) values.push_back(value);
    }
  return values;
}

std::string frame(const LogPlot& plot, const Axis& x, const Axis& y) {
  std::string out;
  for (double value : ticks(x)) {
    out += rule(x.at(value), y.from, x.at(value), y.to);
    out += text_at(x.at(value), y.from + 16, number_text(value), "middle");
  }
  for (double value : ticks(y)) {
    out += rule(x.from, y.at(value), x.to, y.at(value));
    out += text_at(x.from - 6, y.at(value) + 4, number_text(value), "end");
  }
  out += text_at((x.from + x.to) / 2, kHeight - 10, plot.x_label, "middle");
  out += fmt::format(
      "<text transform=\"translate(14,{:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (y.from + y.to) / 2, html_text(plot.y_label));
  return out;
}

std::string drawn(const Series& series, std::size_t index, const Axis& x, const Axis& y) {
  std::string out, path;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const double px = x.at(series.points[i].first), py = y.at(series.points[i].second);
    path += fmt::format("{:.1f},{:.1f} ", px, py);
    if (!series.markers) continue;
    const std::string tip = i < series.labels.size() ? series.labels[i] : series.name;
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}</title></circle>\n", px,
        py, colour(index), html_text(tip));
  }
  if (series.line)
    out =
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                    path, colour(index), series.dashed ? " stroke-dasharray=\"6 4\"" : "") +
        out;
  return out;
}

/// Above the plot, two names a line.
std::string legend(const std::vector<Series>& all) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double x = kLeft + double(i % 2) * (kWidth - kLeft) / 2,
                 y = kTop + 8 + double(i / 2) * 17;
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"4\" fill=\"{}\"/>\n",
                       x, y - 6, colour(i));
    out += text_at(x + 18, y, all[i].name, "start");
  }
  return out;
}

std::string opened(double height, const std::string& title) {
  return fmt::format(
             "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" "
             "fill=\"var(--text)\" font-size=\"12\">\n",
             kWidth, height, html_text(title)) +
         text_at(kWidth / 2, 18, title, "middle", " font-weight=\"600\" font-size=\"13\"");
}

}  // namespace

std::string svg(const LogPlot& given) {
  LogPlot plot = given;
  for (Series& series : plot.series)  // a logarithm needs something above zero
    std::erase_if(series.points, [](const auto& p) {
      return !(p.first > 0 && p.second > 0) || !std::isfinite(p.first) || !std::isfinite(p.second);
    });
  const Axis x = axis(plot, true, kLeft, kWidth - kRight);
  const double below_legend = kTop + 17 * double((plot.series.size() + 1) / 2);
  const Axis y = axis(plot, false, kHeight - kBottom, below_legend);
  std::string out = opened(kHeight, plot.title) + frame(plot, x, y);
  for (std::size_t i = 0; i < plot.series.size(); ++i) out += drawn(plot.series[i], i, x, y);
  return out + legend(plot.series) + "</svg>\n";
}

std::string svg(const BarPlot& plot) {
  constexpr double label_width = 250, bar_height = 22;
  const double height = kTop + bar_height * double(plot.bars.size()) + 34;
  double low = plot.base, high = plot.base;
  for (const Bar& bar : plot.bars) {
    low = std::min({low, bar.value, bar.low > 0 ? bar.low : low});
    high = std::max({high, bar.value, bar.high});
  }
  if (!(high > low)) high = low + 1;
  const double room = kWidth - label_width - 110;
  const auto at = [&](double value) { return label_width + (value - low) / (high - low) * room; };
  std::string out = opened(height, plot.title);
  double y = kTop;
  for (const Bar& bar : plot.bars) {
    const double from = std::min(at(plot.base), at(bar.value));
    const double width = std::fabs(at(bar.value) - at(plot.base));
    out += text_at(label_width - 8, y + 14, bar.label, "end");
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" fill=\"{}\"/>\n", from,
        y + 3, std::max(width, 0.8), colour(bar.value > plot.base && plot.base > 0 ? 1 : 0));
    if (bar.high > bar.low)
      out += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--text)\" "
          "stroke-width=\"2\"/>\n",
          at(bar.low), y + 10, at(bar.high), y + 10);
    out += text_at(std::max(at(bar.value), at(bar.high > bar.low ? bar.high : bar.value)) + 6,
                   y + 14, bar.text, "start");
    y += bar_height;
  }
  out += fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
      "stroke=\"var(--text)\"/>\n",
      at(plot.base), kTop, y);
  return out + text_at(label_width + room / 2, y + 22, plot.x_label, "middle") + "</svg>\n";
}

}  // namespace kvconform::bench
