// SPDX-License-Identifier: Apache-2.0
// Many steps drawn against each other: the still picture of time and memory, which the script
// replaces by one that moves (report/page/source/points.js), and the lines along each axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "report/html/markup.h"
#include "report/html/panels.h"
#include "report/text/axis_lines.h"
#include "sim/results/step_ranking.h"

namespace stepcast {
namespace {

constexpr double kPictureWidth = 900, kPictureHeight = 336, kLeft = 56, kRight = 876, kTop = 20,
                 kBottom = 300;

// The next of 1, 2, 5, 10, 20, ... times a power of ten.
double nice_step(double least) {
  double step = 1e-9;
  for (int i = 0; step < least; ++i) step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

double seconds_of(const StepRow& row) {
  return to_seconds(Time{row.step_time_ps.value_or(0)});
}
double gib_of(const StepRow& row) {
  return static_cast<double>(row.reserved_bytes.value_or(0)) / (1 << 30);
}

// Where time and memory are drawn.
class Frame {
 public:
  explicit Frame(const std::vector<StepRow>& rows) {
    double high = 0;
    low_ = 1e300;
    for (const StepRow& row : rows) {
      low_ = std::min(low_, seconds_of(row));
      high = std::max(high, seconds_of(row));
      most_ = std::max({most_, gib_of(row)});
    }
    span_ = std::max(high - low_, high * 0.01) * 1.14;
    low_ -= span_ * 0.05;
    most_ *= 1.05;
  }
  double x(double seconds) const { return kLeft + (seconds - low_) / span_ * (kRight - kLeft); }
  double y(double gib) const { return kBottom - gib / most_ * (kBottom - kTop); }

  std::string axes() const {
    std::string s;
    const double memory = nice_step(most_ / 5), time = nice_step(span_ / 6);
    for (double g = 0; g <= most_; g += memory)
      s += fmt::format(
          "<path class=\"tick\" d=\"M{0} {1}H{2}\"/><text x=\"50\" y=\"{1}\" dy=\"4\" "
          "text-anchor=\"end\">{3}</text>",
          kLeft, fixed(y(g), 1), kRight, fixed(g, memory < 1 ? 1 : 0));
    const double first = std::ceil(low_ / time) * time;
    for (int i = 0; first + i * time <= low_ + span_; ++i) {
      const double t = first + i * time;
      s += fmt::format("<text x=\"{}\" y=\"318\" text-anchor=\"middle\">{} s</text>",
                       fixed(x(t), 1), short_decimal(t, 6));
    }
    return s +
           "<text x=\"56\" y=\"12\">peak GiB</text><text x=\"876\" y=\"334\" "
           "text-anchor=\"end\">step time</text>\n";
  }

 private:
  double low_ = 0, span_ = 1, most_ = 1;
};

// A dot for each cell of so many pixels that has one.
std::string dots(std::span<const StepRow> rows, const Frame& frame, std::string_view style) {
  constexpr double kCell = 3;
  std::set<std::pair<int, int>> cells;
  for (const StepRow& row : rows)
    cells.emplace(static_cast<int>(frame.x(seconds_of(row)) / kCell),
                  static_cast<int>(frame.y(gib_of(row)) / kCell));
  std::string path;
  for (const auto& [x, y] : cells)
    path += fmt::format("M{} {}h0", fixed((x + 0.5) * kCell, 1), fixed((y + 0.5) * kCell, 1));
  return path.empty() ? path : fmt::format("<path class=\"{}\" d=\"{}\"/>\n", style, path);
}

// From the fastest on, those that hold less than all before them.
std::vector<const StepRow*> front_of(std::span<const StepRow> rows) {
  std::vector<const StepRow*> order;
  for (const StepRow& row : rows) order.push_back(&row);
  std::ranges::stable_sort(order, [](const StepRow* a, const StepRow* b) {
    return std::pair(a->step_time_ps, a->reserved_bytes) <
           std::pair(b->step_time_ps, b->reserved_bytes);
  });
  std::vector<const StepRow*> front;
  for (const StepRow* row : order)
    if (front.empty() || row->reserved_bytes < front.back()->reserved_bytes) front.push_back(row);
  return front;
}

std::string picture(const StepPoints& points) {
  const Frame frame(points.rows);
  const std::span<const StepRow> all = points.rows;
  std::string s = fmt::format(
      "<svg class=\"scatter\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Step time and memory "
      "of {} steps\">\n",
      kPictureWidth, kPictureHeight, points.rows.size());
  s += frame.axes() + dots(all.subspan(points.counted), frame, "dots lost") +
       dots(all.first(points.counted), frame, "dots");
  if (points.counted > 0) {
    // In steps: what takes and holds more than a row of the front is behind it.
    std::string path;
    for (const StepRow* row : front_of(all.first(points.counted)))
      path += fmt::format("{}{}{}{}", path.empty() ? "M" : "H", fixed(frame.x(seconds_of(*row)), 1),
                          path.empty() ? " " : "V", fixed(frame.y(gib_of(*row)), 1));
    s += "<path class=\"line\" d=\"" + path + "\"/>\n";
    s += fmt::format("<circle class=\"first\" cx=\"{}\" cy=\"{}\" r=\"6\"/>\n",
                     fixed(frame.x(seconds_of(all.front())), 1),
                     fixed(frame.y(gib_of(all.front())), 1));
  }
  return s + "</svg>\n";
}

}  // namespace

std::string points_panel(const StepPoints& points) {
  if (points.rows.size() < 2) return {};
  std::string legend = "<ul class=\"legend\"><li>" + swatch("t-compute") + "fits</li>";
  if (points.counted < points.rows.size())
    legend += "<li>" + swatch("t-lost") + "does not fit, or breaks a constraint</li>";
  legend += "</ul>\n";
  return html_section(
      "points", "Time, memory, price",
      legend +
          note(fmt::format("{} forecasts, of which {} fit{}. Line: no other is better in one of "
                           "the two and no worse in both; ring: the first of the table.",
                           grouped(static_cast<int64_t>(points.rows.size())),
                           grouped(static_cast<int64_t>(points.counted)),
                           points.left_out == 0
                               ? ""
                               : fmt::format("; {} behind them are not drawn",
                                             grouped(static_cast<int64_t>(points.left_out))))) +
          "<figure id=\"scatter\">" + picture(points) + "</figure>\n");
}

std::string axes_panel(const StepPoints& points) {
  const CellTable lines = axis_lines_table(points);
  if (lines.rows.size() < 2) return {};
  return html_section(
      "axes", "One axis at a time",
      "<figure id=\"lines\"></figure>\n" +
          html_details("As a table, from the first",
                       cell_table("What differs from the first in one axis alone", lines)));
}

}  // namespace stepcast
