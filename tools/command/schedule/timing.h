// SPDX-License-Identifier: Apache-2.0
// When the actions of a schedule run under given costs, and what follows from that.
#pragma once

#include <string>
#include <vector>

#include "report/json/writer.h"
#include "report/text/schedule.h"
#include "tools/command/schedule/input.h"

namespace stepcast::cli {

struct RankTiming {
  Time busy{};                   // in actions
  Time start{}, end{};           // first start, last end
  int64_t peak_in_flight = 0;    // activations held, if B and W release them
  int64_t peak_until_input = 0;  // ... if B and I do
};

struct ScheduleTiming {
  Time makespan{};  // last end, from 0
  Time span{};      // largest (end - start) over ranks
  Time ideal{};     // busy time of the busiest rank: no order is faster
  Time bubble{};    // makespan - ideal
  std::vector<RankTiming> ranks;
  std::vector<std::vector<DrawnAction>> lanes;
};

// Throws InputError: E004 if the style does not go with the schedule, E401 (status 4) if the
// transfers of that style block each other for good.
ScheduleTiming time_schedule(const Schedule& schedule, const ScheduleCosts& costs, P2pStyle style);

// "makespan 33", "span 33", "bubble 9 (27.3 %)"
std::vector<std::string> facts_of(const ScheduleTiming& timing, const ScheduleCosts& costs);

ScheduleDrawing drawing_of(const ChosenSchedule& chosen, ScheduleTiming timing,
                           const ScheduleCosts& costs);

// Members makespan, span, ideal, bubble and bubble_share of an object.
void write_times(JsonWriter& json, const ScheduleTiming& timing, const ScheduleCosts& costs);
// A time in the unit of --costs, exactly.
void write_time(JsonWriter& json, std::string_view key, Time t, const ScheduleCosts& costs);

}  // namespace stepcast::cli
