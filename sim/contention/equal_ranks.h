// SPDX-License-Identifier: Apache-2.0
// Internal to the contention engine: equal ranks whose compute and communication slow each other,
// on links of their own, where one rank of each role stands for all.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/contention/contention.h"
#include "sim/graph/spend.h"
#include "sim/lanes/lane_recorder.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast::contention {

// All ranks are one lane as priced: no speeds, classes, windows or jitter.
bool are_equal(const FoldedLanes& folded);

// What run_contended() says of ranks that were folded to one lane.  All roles are recorded with
// `record`.  REQUIRES: are_equal(folded); private traffic; factors from 1 to 1024 in 1/4096.
// Throws as run_contended().
ContentionResult run_equal_ranks(const OpGraph& graph, const Prices& prices,
                                 const FoldedLanes& folded, int64_t slow_compute,
                                 int64_t slow_communication, bool merge, bool record);

// A pass that a rank runs by itself: from 0 on, when all of its streams stand still, and with
// nothing of other roles beside it.  Times are in 1/4096 ps.
struct LonePassBegin {
  int64_t host = 0;  // when the host comes to it, which may be long before
  // The compute stream comes from an op that ended so many units of progress before 0, which the
  // next one has if it goes on without a break (equal_ranks.cc); -1: it comes from none.
  int64_t over = -1;

  bool operator==(const LonePassBegin&) const = default;
};
struct LonePassEnd {
  std::array<int64_t, kStreams> time{};  // of each stream; 0 where the pass does not use it
  int64_t over = -1;
  int64_t first_start = INT64_MIN;  // on the compute stream; INT64_MIN: nothing runs there
  int64_t collectives = 0;
  // Whether some op waited for its launch, or might have.  If not, all is the same where the host
  // comes earlier.
  bool launch_mattered = false;
  // If so, before the last one of the `aligned` collectives alone.
  bool host_forgotten = false;

  // Where it is recorded: what the compute stream stood still for, and the last collective of each
  // stream that has any.
  std::vector<std::pair<Spend, int64_t>> booked;
  std::vector<std::pair<uint32_t, StragglerWait>> last_collective;
};

// `aligned`: ops of the pass from the first on up to where compute and collectives are never on at
// one time.  REQUIRES: one role, whose only item is a pass; factors as above.  Throws as
// run_contended().
LonePassEnd run_lone_pass(const OpGraph& graph, const Prices& prices, const LonePassBegin& begin,
                          int64_t slow_compute, int64_t slow_communication, bool merge,
                          uint32_t aligned = 0, bool record = false);

}  // namespace stepcast::contention
