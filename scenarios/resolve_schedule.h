// SPDX-License-Identifier: Apache-2.0
// The section `schedule` -> Schedule, and what follows from it for the plan: transfers, vocabulary.
#pragma once

#include <optional>
#include <string>

#include "scenarios/files.h"
#include "scenarios/resolve_plan.h"
#include "scenarios/scenario.h"
#include "schedules/schedule.h"

namespace stepcast {

// What the named family does with chunks, as far as it leaves no choice: for the layout, which is
// resolved before.
struct FamilyChunks {
  std::optional<int64_t> vpp;  // the fewest chunks that it runs, where one is not enough
  bool replicas = false;       // two replicas of the model: pp stages, two on each rank
};
FamilyChunks family_chunks(const FieldValues& values);

struct ResolvedSchedule {
  Schedule schedule;
  std::optional<ScheduleToMake> to_make;
};

// Adds E102, E125, E127, E205 for what cannot be generated, E401-E403 for what the user wrote out.
// Of an incomplete plan only the name of the schedule is checked.
std::optional<ResolvedSchedule> resolve_schedule(const PlanInputs& in, const Plan& plan,
                                                 bool complete, ScenarioFiles& files);

// The schedule that stands under schedule.steps, or in the file schedule.file; nothing if it is not
// the plan's, incomplete or deadlocked (written_schedule.cc).  REQUIRES: the plan is complete and
// one of the two keys is there.
std::optional<Schedule> written_schedule(const PlanInputs& in, const Plan& plan,
                                         ScenarioFiles& files);

// Whether the pieces that a schedule cuts sequences into go with the plan; a problem at `mark`,
// `length` characters long, if not.
bool check_pieces(const PlanInputs& in, const Plan& plan, const Schedule& schedule,
                  const Mark& mark, int length);

// "interleaved 1F1B" for "interleaved-1f1b" (schedule_title.cc).
std::string schedule_title(const std::string& schedule_name);

// How pipeline transfers block: as in the framework that runs the schedule, unless the user says
// otherwise (resolve_transfers.cc).  Adds E127 for a style that does not go with the schedule.
P2pStyle resolve_transfers(const PlanInputs& in, const Schedule& schedule);

// Whether the schedule shares the vocabulary over the pipeline (resolve_vocabulary.cc).  Adds E127
// for what does not go with that.
VocabularySplit resolve_vocabulary(const PlanInputs& in, const Plan& plan,
                                   const Schedule& schedule);

}  // namespace stepcast
