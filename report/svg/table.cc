// SPDX-License-Identifier: Apache-2.0
#include "report/svg/table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "report/format.h"
#include "report/svg/canvas.h"
#include "sim/log_exp.h"

namespace stepcast {

namespace {

// Paul Tol's bright and muted schemes (SRON/EPS/TN/09-002), told apart by the colour-blind too.
constexpr std::array<std::string_view, 12> kColours{"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                                    "#66ccee", "#aa3377", "#332288", "#bb7700",
                                                    "#44aa99", "#999933", "#882255", "#777777"};

// Pixels.
constexpr int64_t kTitle = 40, kPlotLeft = 84, kPlotTop = 44, kPlotWidth = 400, kPlotHeight = 300;
constexpr int64_t kLegend = kPlotLeft + kPlotWidth + 16, kPanelWidth = 748;
constexpr int64_t kSeriesRow = 15, kPanelFoot = 52;
constexpr int kLineHeight = 15;
constexpr int64_t kLongestSeries = 36;  // letters of a legend

constexpr double kLog2Of10 = 3.321928094887362;

double log10_of(double x) {
  return exact_log2(x) / kLog2Of10;
}

bool drawable(double x, double y) {
  return x > 0 && y > 0 && x < 1e30 && y < 1e30;
}

double power_of_ten(int n) {
  double value = 1;
  for (int i = 0; i < (n < 0 ? -n : n); ++i) value *= 10;
  return n < 0 ? 1 / value : value;
}

// "500 GFLOP/s", "20 us": `mantissa` times 10^decade.
std::string tick_label(int mantissa, int decade, const std::string& unit) {
  constexpr std::array<std::string_view, 9> kPrefixes{"n", "u", "m", "", "k", "M", "G", "T", "P"};
  int group = 3 + (decade >= 0 ? decade / 3 : -((2 - decade) / 3));
  group = std::clamp(group, 0, 8);
  const int rest = decade - 3 * (group - 3);
  std::string number = std::to_string(mantissa);
  if (rest >= 0) {
    number.append(static_cast<size_t>(rest), '0');
  } else {
    number = "0." + std::string(static_cast<size_t>(-rest - 1), '0') + number;
  }
  return number + ' ' + std::string(kPrefixes[static_cast<size_t>(group)]) + unit;
}

struct Tick {
  double value = 0;
  std::string label;
};

// A logarithmic axis from one tick to another.
struct PlotAxis {
  double low = 0, high = 1;  // decimal logarithms
  std::vector<Tick> ticks;

  // `pixels` long; labels lie along it (x) or across it (y).
  PlotAxis(double least, double most, const std::string& unit, int64_t pixels, bool along);
  // Share of the axis.
  double at(double value) const { return (log10_of(value) - low) / (high - low); }
  bool have_room(int64_t pixels, bool along) const;
};

PlotAxis::PlotAxis(double least, double most, const std::string& unit, int64_t pixels, bool along) {
  const int first = static_cast<int>(log10_of(least) + 100) - 101;
  const int last = static_cast<int>(log10_of(most) + 100) - 98;
  // As dense as labels have room: 1 2 5, 1 3 of each decade, every decade, every second one, ...
  constexpr std::array<std::array<int, 3>, 3> kMantissas{{{1, 2, 5}, {1, 3, 0}, {1, 0, 0}}};
  constexpr int kMostDecades = 12;  // from one tick to the next
  for (int step = 1, form = 0;; form < 2 ? ++form : ++step) {
    ticks.clear();
    for (int d = first; d <= last; ++d) {
      if (d % step != 0) continue;
      for (const int m : kMantissas[static_cast<size_t>(form)])
        if (m > 0) ticks.push_back({m * power_of_ten(d), tick_label(m, d, unit)});
    }
    // From the last tick at or below the least value to the first at or above the greatest.
    while (ticks.size() > 2 && ticks[1].value <= least * (1 + 1e-9)) ticks.erase(ticks.begin());
    while (ticks.size() > 2 && ticks[ticks.size() - 2].value >= most * (1 - 1e-9)) ticks.pop_back();
    if (ticks.empty()) continue;
    low = log10_of(ticks.front().value);
    high = std::max(low + 0.1, log10_of(ticks.back().value));
    if (have_room(pixels, along) || step >= kMostDecades) return;
  }
}

bool PlotAxis::have_room(int64_t pixels, bool along) const {
  for (size_t i = 1; i < ticks.size(); ++i) {
    const double gap = (at(ticks[i].value) - at(ticks[i - 1].value)) * static_cast<double>(pixels);
    const int widest = std::max(display_width(ticks[i].label), display_width(ticks[i - 1].label));
    if (gap < (along ? static_cast<int>(kSvgLetter) * widest + 10 : kLineHeight)) return false;
  }
  return true;
}

struct Range {
  double least = std::numeric_limits<double>::max(), most = 0;
  void take(double v) {
    least = std::min(least, v);
    most = std::max(most, v);
  }
};

class Panel {
 public:
  Panel(SvgCanvas& canvas, const FitPlot& plot, int64_t left, int64_t top)
      : canvas_(canvas), plot_(plot), left_(left), top_(top) {}

  // Returns its height.
  int64_t draw() {
    Range x, y;
    for (const PlotSeries& s : plot_.series) {
      for (const PlotPoint& p : s.points) {
        if (!drawable(p.x, p.y)) continue;
        x.take(p.x);
        y.take(p.y);
      }
    }
    x_.emplace(x.least, x.most, plot_.x_unit, kPlotWidth, true);
    y_.emplace(y.least, y.most, plot_.y_unit, kPlotHeight, false);
    draw_axes();
    for (size_t i = 0; i < plot_.series.size(); ++i) draw_points(i);
    for (size_t i = 0; i < plot_.series.size(); ++i) draw_curve(i);
    return std::max(kPlotTop + kPlotHeight + kPanelFoot, draw_legend());
  }

 private:
  int64_t x_of(double value) const {
    return left_ + kPlotLeft + static_cast<int64_t>(x_->at(value) * kPlotWidth + 0.5);
  }
  int64_t y_of(double value) const {
    return top_ + kPlotTop + kPlotHeight - static_cast<int64_t>(y_->at(value) * kPlotHeight + 0.5);
  }
  bool inside(double x, double y) const {
    return x_->at(x) >= -1e-9 && x_->at(x) <= 1 + 1e-9 && y_->at(y) >= -1e-9 &&
           y_->at(y) <= 1 + 1e-9;
  }
  static std::string_view colour(size_t series) { return kColours[series % kColours.size()]; }

  void draw_axes() {
    const int64_t x0 = left_ + kPlotLeft, x1 = x0 + kPlotWidth;
    const int64_t y0 = top_ + kPlotTop, y1 = y0 + kPlotHeight;
    canvas_.text(left_ + 12, top_ + 16, plot_.title, "h");
    canvas_.text(left_ + 12, top_ + 34, plot_.y_name);
    for (const Tick& t : x_->ticks) {
      const int64_t x = x_of(t.value);
      canvas_.line(x, y0, x, y1, "grid");
      canvas_.text(x, y1 + 16, t.label, "m");
    }
    for (const Tick& t : y_->ticks) {
      const int64_t y = y_of(t.value);
      canvas_.line(x0, y, x1, y, "grid");
      canvas_.text(x0 - 6, y + 4, t.label, "e");
    }
    canvas_.line(x0, y1, x1, y1, "axis");
    canvas_.line(x0, y0, x0, y1, "axis");
    canvas_.text((x0 + x1) / 2, y1 + 34, plot_.x_name, "m");
  }

  void draw_points(size_t index) {
    for (const PlotPoint& p : plot_.series[index].points)
      if (drawable(p.x, p.y)) canvas_.dot(x_of(p.x), y_of(p.y), colour(index), p.derived, p.title);
  }

  void draw_curve(size_t index) {
    std::vector<std::pair<int64_t, int64_t>> curve;
    for (const auto& [x, y] : plot_.series[index].curve)
      if (drawable(x, y) && inside(x, y)) curve.emplace_back(x_of(x), y_of(y));
    if (curve.size() > 1) canvas_.curve(curve, colour(index));
  }

  // A short line of its colour, and what it is.
  void legend_line(size_t index, int64_t x, int64_t y, const std::string& words) {
    const std::array<std::pair<int64_t, int64_t>, 2> sample{{{x - 4, y - 4}, {x + 18, y - 4}}};
    canvas_.curve(sample, colour(index));
    canvas_.text(x + 24, y, elided(words, kLongestSeries - 2));
  }

  int64_t draw_legend() {
    const int64_t x = left_ + kLegend;
    int64_t y = top_ + kPlotTop + 4;
    bool derived = false;
    for (size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& s = plot_.series[i];
      derived = derived || std::any_of(s.points.begin(), s.points.end(),
                                       [](const PlotPoint& p) { return p.derived; });
      if (s.points.empty()) {
        legend_line(i, x, y, s.name);
      } else {
        canvas_.dot(x, y - 4, colour(i), false, {});
        canvas_.text(x + 10, y, elided(s.name, kLongestSeries));
      }
      y += kSeriesRow;
    }
    y += kSeriesRow / 2;
    if (!plot_.curve_name.empty()) {
      legend_line(0, x, y, plot_.curve_name);
      y += kSeriesRow;
    }
    if (derived) {
      canvas_.dot(x + 7, y - 4, colour(0), true, {});
      canvas_.text(x + 24, y, "derived, not measured here");
      y += kSeriesRow;
    }
    return y - top_;
  }

  SvgCanvas& canvas_;
  const FitPlot& plot_;
  int64_t left_, top_;
  std::optional<PlotAxis> x_, y_;
};

bool has_points(const FitPlot& plot) {
  for (const PlotSeries& s : plot.series)
    for (const PlotPoint& p : s.points)
      if (drawable(p.x, p.y)) return true;
  return false;
}

}  // namespace

std::string fit_plots_svg(const std::string& title, std::span<const FitPlot> plots) {
  SvgCanvas canvas;
  canvas.text(12, 24, title, "t");
  int64_t top = kTitle, height = 0, column = 0;
  for (const FitPlot& plot : plots) {
    if (!has_points(plot)) continue;
    if (column == 2) {
      top += height;
      column = height = 0;
    }
    height = std::max(height, Panel(canvas, plot, column * kPanelWidth, top).draw());
    ++column;
  }
  return canvas.finish(xml_text(title), top + height + 12);
}

}  // namespace stepcast
