// SPDX-License-Identifier: Apache-2.0
// Small schedules with times, for the tests of drawings.
#pragma once

#include <algorithm>

#include "report/text/schedule.h"

namespace stepcast {

// F of every microbatch, then B (twice as long), `pp` ranks one unit behind each other.  One unit
// is `per_unit` ticks.
inline ScheduleDrawing forwards_then_backwards(int pp, uint32_t microbatches,
                                               int64_t per_unit = 1) {
  ScheduleDrawing d;
  d.title = "sample";
  d.facts = {"makespan 9", "span 9"};
  d.per_unit = per_unit;
  for (int r = 0; r < pp; ++r) {
    std::vector<DrawnAction> lane;
    Time t{r * per_unit};
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward})
      for (uint32_t m = 0; m < microbatches; ++m) {
        const Time end = t + Time{per_unit * (kind == ActionKind::forward ? 1 : 2)};
        lane.push_back({Action{kind, static_cast<uint16_t>(r), m}, 0, t, end});
        d.makespan = std::max(d.makespan, end);
        t = end;
      }
    d.lanes.push_back(std::move(lane));
  }
  return d;
}

}  // namespace stepcast
