// SPDX-License-Identifier: Apache-2.0
// A pipeline schedule as a drawing in the terminal: one lane a rank, time from left to right.
//
//   rank 0 |F0F1F2F3......B0--F4B1--F5
//   rank 1 |..F0F1F2....B0--F3B1--F4B2
//
// With colours every kind has its own (those of Paul Tol's colour-blind safe palettes) and odd
// chunks are lighter; without, letters tell kinds apart, and those of odd chunks are small.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/format.h"
#include "sim/graph/action.h"
#include "sim/units.h"

namespace stepcast {

struct DrawnAction {
  Action action;
  uint16_t chunk = 0;   // which of its rank's stages, from 0
  Time begin{}, end{};  // the halves of an overlapped pair follow each other
};

// A schedule with its times.
struct ScheduleDrawing {
  std::string title;               // "zb-h1: 4 ranks, 4 stages, 8 microbatches"
  std::vector<std::string> facts;  // "makespan 33", "bubble 9 (27.3 %)"
  int64_t per_unit = 1;            // picoseconds of a unit of time, for the axis
  int64_t seq_splits = 1;
  std::vector<std::vector<DrawnAction>> lanes;  // one a rank, in order of time
  Time makespan{};
};

// Title, one or several bands of lanes under a time axis, legend, facts.  Lines have at most
// `style.width` columns, or 40 if that is less.  The shortest action is as wide as its label where
// the drawing then fills no more than a screen or two, else narrower.  A schedule that is too long
// for one column an action is still drawn whole: each column shows what takes most of it. O(actions
// + what is printed).
std::string draw_schedule(const ScheduleDrawing& drawing, const TextStyle& style = {});

// The kinds of action that occur, in the order of ActionKind, and their names for a legend.
std::vector<ActionKind> kinds_in(const ScheduleDrawing& drawing);
std::string_view name_of_kind(ActionKind kind);  // "input gradient"

// A step of 1, 2 or 5 times a power of ten, in ticks of 1 / per_unit, not below `least` ticks.
int64_t axis_step(int64_t least, int64_t per_unit);

// What an action is labelled with: its microbatch, "12", with splits "3.1".
std::string label_of(const Action& action, int64_t seq_splits);

}  // namespace stepcast
