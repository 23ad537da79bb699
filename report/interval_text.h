// SPDX-License-Identifier: Apache-2.0
// The interval of a step time in words.
#pragma once

#include <optional>
#include <string>

#include "report/format.h"
#include "report/json_writer.h"
#include "sim/result.h"
#include "sim/units.h"

namespace stepcast {

// "13.62 s ± 4 %", where both ends are as far from the step time, to a percent; else "13.62 s".
std::string step_text(Time step, const Interval& interval);
// "13.20 s to 15.90 s   -3 % to +17 %, as 771 like runs of 11 sources": what belongs to the name
// "80 % interval" (interval_name).
std::string interval_text(Time step, const Interval& interval);
std::string interval_name(const Interval& interval);

// How it came about, or that there is none, in lines.
std::string explain_interval(Time step, const std::optional<Interval>& interval,
                             const TextStyle& style = {});
// {low_s, high_s, level}, or null
void write_interval(JsonWriter& json, const std::optional<Interval>& interval);
// The same with all it is made from: like, runs, sources, like_low, like_high, like_cost_error,
// cost_error, cost_parts.
void write_interval_basis(JsonWriter& json, const std::optional<Interval>& interval);

}  // namespace stepcast
