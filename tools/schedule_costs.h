// SPDX-License-Identifier: Apache-2.0
// Costs of a schedule as the command line gives them: decimals in any unit, kept exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedules/lower_unit.h"

namespace stepcast::cli {

// Times are counted in ticks, one of which is 1 / per_unit of the user's unit: as many as it takes
// to make every time a whole number, those of the straggler included.
struct ScheduleCosts {
  int64_t forward = 0, backward_input = 0, backward_weight = 0, hop = 0;  // ticks
  int64_t per_unit = 1;                                                   // ticks of one unit
  int64_t slow_rank = -1;                                                 // -1: none
  int64_t slow_numerator = 1, slow_denominator = 1;  // times are multiples of the denominator
  bool given = false;                                // --costs was on the command line
};

// `costs` is "tF,tI,tW,c" or empty for 1,1,1,0; `straggler` is "RANK=FACTOR" or empty.  Throws
// InputError E004 unless all are decimals >= 0, the factor > 0, and each has at most 15 digits
// after the point.
ScheduleCosts parse_costs(std::string_view costs, std::string_view straggler);

// A whole number not below `least`.  Throws InputError E004 that names `option`.
int64_t parse_count(std::string_view option, std::string_view text, int64_t least);

// Times of the schedule under these costs.  `durations` gets what lower_unit says of each work,
// with the straggler exact.
OpGraph lower_with(const Schedule& schedule, const ScheduleCosts& costs, P2pStyle style,
                   std::vector<Time>& durations);

// Throws InputError E004 if the sum of all times of the schedule is beyond what can be counted.
void require_countable(const Schedule& schedule, const ScheduleCosts& costs);

}  // namespace stepcast::cli
