// SPDX-License-Identifier: Apache-2.0
#include "schedules/forward_only.h"

#include <algorithm>
#include <stdexcept>

namespace stepcast {

Schedule forwards_of(const Schedule& schedule) {
  if (schedule.is_bidirectional() || schedule.seq_splits > 1)
    throw std::invalid_argument("a forward alone runs whole microbatches in one direction, not " +
                                schedule.name);
  Schedule forwards = schedule;
  forwards.name = "forwards";
  forwards.forward_only = true;
  for (std::vector<Action>& list : forwards.ranks) {
    std::erase_if(list, [](const Action& a) { return a.kind != ActionKind::forward; });
    for (Action& a : list) a.overlaps_next = false;  // with a backward
  }
  return forwards;
}

}  // namespace stepcast
