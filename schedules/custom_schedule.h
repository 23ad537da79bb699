// SPDX-License-Identifier: Apache-2.0
// A schedule that the user wrote: one list of actions for each pipeline rank, and nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast {

// What the lists leave unsaid is read off them: pp is the number of lists; stages and microbatches
// are one more than the largest that occurs; a stage is on the first rank that names it; vpp is the
// largest number of stages on a rank.  check_schedule() says whether the outcome is any good.
// Throws std::invalid_argument with a sentence for the user if there is no list or no action, or if
// there are more ranks than 65,536.  O(actions).
Schedule schedule_of_rows(std::string_view name, std::vector<std::vector<Action>> rows);

// PyTorch's schedule file ("compute_only"): one line a rank, cells separated by commas, an empty
// cell is an idle slot; lines end with LF or CRLF, and empty lines at the end do not count.
// Overlapped pairs and communication cells are not understood.  Throws InputError E402 with the
// line and column of every wrong cell (at most 20), or E403 if there is nothing in the file.
Schedule read_schedule_csv(std::string_view text, const std::string& file_name);

// The same format, CRLF, without idle slots.  Reading it back gives the same lists.
std::string write_schedule_csv(const Schedule& schedule);

}  // namespace stepcast
