// SPDX-License-Identifier: Apache-2.0
// The input of `stepcast schedule`: a schedule (a family by name, a file, or that of a scenario),
// and costs as the command line gives them, decimals in any unit, kept exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/json/writer.h"
#include "schedules/lower/lower_unit.h"
#include "schedules/schedule.h"
#include "tools/command/command.h"

namespace stepcast::cli {

// --- Costs

// One stage of a --stages file.
struct StageCosts {
  int64_t forward = 0, backward_input = 0, backward_weight = 0;  // ticks
  int64_t backward = 0;                        // of a whole backward; 0: input + weight
  int64_t after_forward = 1, after_input = 1;  // memory held after F and after I, until W
};

// Times are counted in ticks, one of which is 1 / per_unit of the user's unit: as many as it takes
// to make every time a whole number, those of the straggler included.
struct ScheduleCosts {
  int64_t forward = 0, backward_input = 0, backward_weight = 0, hop = 0;  // ticks
  int64_t per_unit = 1;                                                   // ticks of one unit
  int64_t slow_rank = -1;                                                 // -1: none
  int64_t slow_numerator = 1, slow_denominator = 1;  // times are multiples of the denominator
  bool given = false;                                // --costs was on the command line
  std::vector<StageCosts> by_stage;  // instead of the first three; empty: all stages alike
};

// `costs` is "tF,tI,tW,c" or empty for 1,1,1,0; `straggler` is "RANK=FACTOR" or empty; `stages` is
// the text of a --stages file or empty: one line a stage with tF,tI,tW, or with two more columns,
// whole numbers, what the stage holds after F and after I, and perhaps a third, tB; empty lines and
// what follows a # do not count.  Throws InputError E004 unless all are decimals >= 0, the factor >
// 0, and each has at most 15 digits after the point.
ScheduleCosts parse_costs(std::string_view costs, std::string_view straggler,
                          std::string_view stages = {});
// Throws InputError E004 if by_stage is there and has not one entry for each stage.
void require_stages(size_t stages, const ScheduleCosts& costs);

// Times of the schedule under these costs.  `durations` gets what lower_unit says of each work,
// with the straggler exact.
OpGraph lower_with(const Schedule& schedule, const ScheduleCosts& costs, P2pStyle style,
                   std::vector<Time>& durations);

// Throws InputError E004 if the sum of all times of the schedule is beyond what can be counted.
void require_countable(const Schedule& schedule, const ScheduleCosts& costs);

// --- The schedule

struct ChosenSchedule {
  Schedule schedule;
  std::string title;                 // "zb-h1", or the name of the file
  std::vector<std::string> remarks;  // what the user did not say and might want to know
};

// Complete and free of deadlock.  Costs that were given reach the families that build their order
// from them, as parameters tF, tB_input, tW and tComm.  Throws InputError.
ChosenSchedule choose_schedule(const Arguments& args, const ScheduleCosts& costs);

// Text of the --stages file; empty if there is none.
std::string read_stages(const ScheduleArguments& a);

// Throws InputError E205 for sizes that make more actions than can be generated in reasonable time.
void require_few_actions(const ScheduleParams& params);

// "4 ranks, 8 stages, 10 microbatches, 160 actions"
std::string sizes_of(const Schedule& schedule);

// Members schedule, pp, vpp, stages, microbatches (and seq_splits) of an object about it.
void write_schedule(JsonWriter& json, const ChosenSchedule& chosen);

// Throws InputError E004 if the straggler is not a rank of the schedule.
void require_rank(const Schedule& schedule, const ScheduleCosts& costs);

// Adds what would stall if messages between two ranks were one FIFO of rendezvous: a remark, for
// most programs match messages by name or post receives ahead.
void remark_stalls(ChosenSchedule& chosen);

// Remarks, unless --quiet.
void say_remarks(const ChosenSchedule& chosen, const Arguments& args, const Terminal& terminal);

}  // namespace stepcast::cli
