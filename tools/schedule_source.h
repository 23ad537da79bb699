// SPDX-License-Identifier: Apache-2.0
// Which schedule a `stepcast schedule` command is about: a family by name, a schedule file, or the
// schedule of a scenario.
#pragma once

#include <string>
#include <vector>

#include "report/json/writer.h"
#include "schedules/schedule.h"
#include "tools/command.h"
#include "tools/schedule_costs.h"

namespace stepcast::cli {

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

// Throws InputError E205 for sizes that make more actions than anybody looks at.
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
