// SPDX-License-Identifier: Apache-2.0
// What `stepcast-measure` is asked to do.  Needs no GPU.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measure/sweep_points.h"

namespace stepcast::measure {

struct MeasureOptions {
  std::string plan;  // file, "-" = standard input; empty: the grid alone
  Grid grid = Grid::small;
  double budget_s = 300;           // infinite for "none"
  std::set<std::string> families;  // empty: all
  bool list = false;
  std::string output = "-";
  int device = 0;
  std::string gpu;  // preset; empty: by the device's name
  bool help = false;
};

// The arguments behind the program's name.  Throws InputError with a sentence.
MeasureOptions read_measure_options(std::span<const std::string> arguments);

// What --help prints.
std::string_view measure_usage();

// The points of the families asked for, in the order of measuring.  `plan` may be null; `more` are
// those of families that only the GPUs at hand decide (collectives).  Beside a plan the grid weighs
// a tenth of it.
std::vector<SweepPoint> asked_points(const MeasureOptions& options, const PlanText* plan,
                                     std::vector<SweepPoint> more);

// What --list prints: a line a point with the seconds it takes and those up to its end, then a sum.
std::string list_text(const std::vector<SweepPoint>& points, double budget_s);

}  // namespace stepcast::measure
