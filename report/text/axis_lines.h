// SPDX-License-Identifier: Apache-2.0
// Lines through one step along each axis: the steps that differ from it in this axis alone.
//
// Axes are columns of a layout, such as TP, and what is set beside these, such as
// "cluster.network.latency".  What follows from the others is no axis: with TP also DP changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "report/text/cells.h"
#include "sim/results/step_ranking.h"
#include "sim/results/step_row.h"

namespace stepcast {

// An axis that is a column.
struct RowAxis {
  std::string_view title;   // "TP"
  std::string_view column;  // as in step_columns()
  std::variant<int64_t StepRow::*, std::string StepRow::*> member;
};
std::span<const RowAxis> row_axes();

// What is set and has no column: "a.b=1", one a line.
std::string other_settings(const StepRow& row);

struct AxisLine {
  std::string axis;  // "TP", "cluster.network.latency"
  // Values ascending, and the best row of each.
  std::vector<std::pair<std::string, size_t>> points;
};
// Through points.rows[through]; axes with one value are left out.  O(rows).
std::vector<AxisLine> axis_lines(const StepPoints& points, size_t through);

// The lines through the first row: value, time, against the first, memory.
CellTable axis_lines_table(const StepPoints& points);

}  // namespace stepcast
