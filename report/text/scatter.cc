// SPDX-License-Identifier: Apache-2.0
#include "report/text/scatter.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "report/format.h"

namespace stepcast {

std::string scatter(std::span<const ScatterPoint> points, const ScatterAxis& x,
                    const ScatterAxis& y, int columns, int rows) {
  if (points.size() < 2) return {};
  const auto [left, right] = std::ranges::minmax(points, {}, &ScatterPoint::x);
  const auto [low, high] = std::ranges::minmax(points, {}, &ScatterPoint::y);
  std::vector<std::string> grid(static_cast<size_t>(rows),
                                std::string(static_cast<size_t>(columns), ' '));
  const auto at = [](double value, double least, double most, int cells) {
    const double share = most > least ? (value - least) / (most - least) : 0;
    return static_cast<size_t>(std::lround(share * (cells - 1)));
  };
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string mark = i < 99 ? fmt::to_string(i + 1) : "*";
    std::string& line = grid[static_cast<size_t>(rows) - 1 - at(points[i].y, low.y, high.y, rows)];
    size_t column = at(points[i].x, left.x, right.x, columns);
    column = std::min(column, line.size() - mark.size());
    // Those that came first stay.
    const std::string_view there = std::string_view(line).substr(column, mark.size());
    const bool beside = column > 0 && line[column - 1] != ' ';
    const bool before = column + mark.size() < line.size() && line[column + mark.size()] != ' ';
    if (there.find_first_not_of(' ') == std::string_view::npos && !beside && !before)
      line.replace(column, mark.size(), mark);
  }
  const std::string top = y.text(high.y), bottom = y.text(low.y);
  const int margin = std::max(display_width(top), display_width(bottom));
  std::string text = "  " + y.title + '\n';
  for (size_t i = 0; i < grid.size(); ++i) {
    const std::string label = i == 0 ? top : i + 1 == grid.size() ? bottom : "";
    grid[i].erase(grid[i].find_last_not_of(' ') + 1);
    text += "  " + pad_left(label, margin) + " |" + grid[i] + '\n';
  }
  const std::string begin = x.text(left.x), end = x.text(right.x) + ' ' + x.title;
  text += "  " + std::string(static_cast<size_t>(margin), ' ') + " +" +
          std::string(static_cast<size_t>(columns), '-') + '\n';
  const int gap = columns - display_width(begin) - display_width(end);
  text += "  " + std::string(static_cast<size_t>(margin) + 2, ' ') + begin +
          std::string(static_cast<size_t>(std::max(1, gap)), ' ') + end + '\n';
  return text;
}

}  // namespace stepcast
