// SPDX-License-Identifier: Apache-2.0
// Points of two quantities as letters on a grid: what a front looks like.
#pragma once

#include <span>
#include <string>

namespace stepcast {

struct ScatterPoint {
  double x = 0, y = 0;
};

// Each point as its number from 1, the first where several meet; '*' for those beyond 99.  Axes
// begin and end at the least and the most of each; `x_text` and `y_text` say what they are and
// write a value.  Lines end with '\n', two blanks before each; empty for fewer than two points.
struct ScatterAxis {
  std::string title;
  std::string (*text)(double) = nullptr;
};
std::string scatter(std::span<const ScatterPoint> points, const ScatterAxis& x,
                    const ScatterAxis& y, int columns = 48, int rows = 12);

}  // namespace stepcast
