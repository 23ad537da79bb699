// SPDX-License-Identifier: Apache-2.0
// The intervals of a step time and of memory in words: how long such steps took, how much they
// reserved.
#pragma once

#include <optional>
#include <string>

#include "report/format.h"
#include "report/json/writer.h"
#include "sim/results/result.h"
#include "sim/units.h"

namespace stepcast {

// "+4 %": by how much `end` is longer than the step.
std::string excess_text(Time step, Time end);
// "13.62 s ± 4 %", where both ends are as far from the step time, to a percent; else "13.62 s".
std::string step_text(Time step, const Interval& interval);
// "13.20 s to 15.90 s   -3 % to +17 %, as 771 like runs of 11 sources": what belongs to the name
// "80 % interval" (interval_name).
std::string interval_text(Time step, const Interval& interval);
std::string interval_name(const Interval& interval);
// The same of memory: "64.0 to 69.3 GiB   -3 % to +5 %, as 115 runs of 4 sources" beside "memory,
// 80 %".
std::string interval_text(Bytes forecast, const MemoryInterval& interval);
std::string interval_name(const MemoryInterval& interval);

// How it came about, or that there is none, in lines.
std::string explain_interval(Time step, const std::optional<Interval>& interval,
                             const TextStyle& style = {});
// How far what the fullest rank reserves is to be trusted, in lines; "" if it has no interval.
std::string explain_memory_interval(const Result& result, const TextStyle& style = {});
// {low_s, high_s, level}, or null
void write_interval(JsonWriter& json, const std::optional<Interval>& interval);
// {low_bytes, high_bytes, level, like, runs, sources, like_low, like_high}, or null
void write_interval(JsonWriter& json, const std::optional<MemoryInterval>& interval);
// The same with all it is made from: like, runs, sources, like_low, like_high, like_cost_error,
// cost_error, cost_parts.
void write_interval_basis(JsonWriter& json, const std::optional<Interval>& interval);

}  // namespace stepcast
