// SPDX-License-Identifier: Apache-2.0
// Proves a schedule complete and free of deadlock, or says why not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast {

struct ScheduleProblem {
  enum class Kind : uint8_t { missing, duplicate, misplaced, order, deadlock } kind = Kind::missing;
  std::string message;  // one line
  uint16_t rank = 0;
  uint32_t position = 0;  // index in the rank's list, if it has one
  std::vector<std::string>
      cycle;  // deadlock: "stage 0 at `0B0` waits for `1B0`", one entry a rank of the circle
};

// Every stage and microbatch has one F and either one B or one I and one W, on the rank that holds
// the stage; B or I after F and W after I on the same rank; and executing the lists in order never
// gets stuck, under the rule that F of stage s needs F of s-1 and B/I of stage s needs B/I of s+1.
// At most `limit` problems (and at least one, if there is any).  O(actions).
std::vector<ScheduleProblem> check_schedule(const Schedule& schedule, size_t limit = 20);

}  // namespace stepcast
