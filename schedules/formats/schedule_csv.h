// SPDX-License-Identifier: Apache-2.0
// A schedule that the user wrote: one list of actions for each pipeline rank, and nothing else.
//
// Schedule files are those of torch.distributed.pipelining, in either of its formats: one line a
// rank, cells separated by commas, an empty cell is an idle slot; lines end with LF or CRLF, and
// empty lines at the end do not count.  "compute_only" has actions (action_text.h),
// "compute_comms" also what is sent and unsharded when (compute_comms.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/check.h"
#include "schedules/schedule.h"
#include "sim/diagnostic.h"

namespace stepcast {

// What the lists leave unsaid is read off them: pp is the number of lists; stages and microbatches
// are one more than the largest that occurs; a stage is on the first rank that names it; vpp is the
// largest number of stages on a rank.  If there are as many stages as ranks, pp is even, and stage
// s is on rank s for some microbatches and on rank pp - 1 - s for others, the schedule is
// bidirectional.  check_schedule() says whether the outcome is any good.
// Throws InputError with a sentence for the user if there is no list or no action, or if there are
// more than kMostStages ranks.  O(actions).
Schedule schedule_of_rows(std::string_view name, std::vector<std::vector<Action>> rows,
                          int64_t seq_splits = 1);

// Reads a file and checks it: complete, in order, free of deadlock, and what it says of
// communication right.  The one function for files from users.  Throws InputError with the line and
// column of every wrong cell (at most 20): E402 for a cell that is none, for an incomplete or
// misordered schedule and for wrong communication, E401 (exit status 4) with the cycle of waits for
// a deadlock, E403 if there is nothing in the file.
Schedule load_schedule_csv(std::string_view text, const std::string& file_name);

// The first half of it: cells are well formed, but the schedule may be anything.  Throws InputError
// E402 or E403.
Schedule read_schedule_csv(std::string_view text, const std::string& file_name);

// What check_schedule() says of a schedule that was read from `text`, pointing at the cells.  With
// an empty text (a schedule that comes from no file) the diagnostics have no place.  A problem of
// kind `stall` is a remark and has no code.
std::vector<Diagnostic> schedule_diagnostics(std::span<const ScheduleProblem> problems,
                                             std::string_view text, const std::string& file_name);

// "compute_only", CRLF, without idle slots.  Reading it back gives the same schedule, but for its
// name, as long as check_schedule() accepts it.
std::string write_schedule_csv(const Schedule& schedule);

}  // namespace stepcast
