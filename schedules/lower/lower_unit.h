// SPDX-License-Identifier: Apache-2.0
// The schedule alone as an op graph, with given costs: one op an action, one transfer a message
// between ranks.  What `stepcast schedule eval` and synthesis run; docs/schedules.md has the rule.
#pragma once

#include <vector>

#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

struct StageTimes {
  Time forward{}, backward_input{}, backward_weight{};
  Time recompute{}, offload{}, reload{};
  Time backward{};  // of a whole backward; 0: input + weight
  Time vocabulary_forward{}, vocabulary_backward{};
  Time embedding_forward{}, embedding_backward{};
};

inline Time whole_backward(const StageTimes& t) {
  return t.backward > Time{0} ? t.backward : t.backward_input + t.backward_weight;
}

// B takes whole_backward(), an overlapped pair the sum of its halves; R, O and L stand in the
// rank's list like any other action.  A hop between ranks takes `hop`.
struct UnitCosts {
  StageTimes times{};                // of every stage, unless ...
  std::vector<StageTimes> by_stage;  // ... each has its own: by global stage
  Time hop{};                        // latency, no occupancy
  int64_t slow_rank = -1;            // every action on this pipeline rank ...
  double slow_factor = 1;            // ... takes that many times as long
};

// Activations are counted in bytes: F and L allocate one, B, W and O free it.  The item of each
// action has it as Item::action; both halves of a pair have an item of their own.
// REQUIRES: check_schedule(schedule) is empty; by_stage is empty or has an entry for every stage.
// Throws InputError with a sentence for the user if transfers of that style do not go with the
// schedule (with_transfers() in transfers/transfers.h).
OpGraph lower_unit(const Schedule& schedule, const UnitCosts& costs,
                   std::vector<Time>& durations_by_work, P2pStyle style = P2pStyle::async);

}  // namespace stepcast
