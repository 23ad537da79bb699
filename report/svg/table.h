// SPDX-License-Identifier: Apache-2.0
// Measured points against fitted curves, as an SVG picture of one panel a family.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {

struct PlotPoint {
  double x = 0, y = 0;
  bool derived = false;  // drawn hollow
  std::string title;     // shown on hovering
};

struct PlotSeries {
  std::string name;  // for the legend; without points it is the name of the curve
  std::vector<PlotPoint> points;
  std::vector<std::pair<double, double>> curve;  // of the fit, ascending in x; may be empty
};

// Both axes are logarithmic.  Units are base units: "B", "s", "FLOP/s"; labels get their prefixes.
struct FitPlot {
  std::string title;
  std::string x_name, x_unit, y_name, y_unit;
  std::vector<PlotSeries> series;
  // What the curves of series with points are; a line of the legend.  Empty: there are none.
  std::string curve_name;
};

// Two panels beside each other.  Points whose x or y is not positive are left out, and so are
// panels without points.  `title`: as in a file's name, escaped here.
std::string fit_plots_svg(const std::string& title, std::span<const FitPlot> plots);

}  // namespace stepcast
