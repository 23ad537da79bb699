// SPDX-License-Identifier: Apache-2.0
// The naive contention engine, for tests only: it plays every lane of every role moment by moment,
// as the machines would, with shared links and compute that communication slows down.
//
// Hosts, streams and rendezvous do what tests/oracle/oracle.h says; what a lane adds is in
// sim/lanes/lanes.h.  There is one clock, in 1/4096 ps.  At each moment everything that can start
// starts and everything that is over ends, again and again until nothing moves; then all rates are
// found from scratch and the clock jumps to the next moment at which something is due.  It shares
// no code with sim/: it only reads the plain structs.
//
// The rules of rounding, which engine and oracle have in common:
//
//   Rates     are whole bytes per second.  A flow moves Work::bytes; alone it does
//             bytes / (price - latency), slowed by compute that rate times 4096 / m, both rounded
//             down, at least 1 (m: Interference::communication in 1/4096, rounded half up).
//   Ends      of flows and of compute are at the first whole moment at which nothing is left.
//   Progress  of a rank's compute is counted in whole units: c a moment alone, 4096 beside
//             communication (c: Interference::compute in 1/4096).  An op needs price * slowness * c
//             units.  An op that goes on where its predecessor on the compute stream ended, and has
//             waited for nothing else, begins at the exact progress at which that one ended, not at
//             the whole moment after: so ops in a row may be merged.
//   Price     of communication on private links: price * 4096 * m units, m a moment alone, 4096
//             beside compute.  Latency is not slowed.
//
//   Windows   change slowness and prices at their moments.  Of what is left of an op, or of
//             communication on private links, new / old times as many whole moments are left
//             after, as it would take alone, rounded down; a flow goes on at its new rate alone.
//             What is over at that moment is over.
//
//   Which     ops are slowed: those on the compute stream that do not communicate.  Which ranks
//             communicate: the group of a collective; of a rendezvous the lanes, in its group, of
//             all roles that post or join it.  Its price class is the join of theirs; the
//             pattern is that of the lowest of its lanes in the sender (the posting role whose
//             pipeline rank is Work::from; without one the lowest that posts).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/contention/contention.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/lanes/lanes.h"
#include "tests/oracle/lane_oracle.h"

namespace stepcast::oracle {

struct ContendedTimes {
  std::vector<std::vector<int64_t>> end;  // [role][lane], when its last stream ran dry, 1/4096 ps
  bool stuck = false;                     // nothing is due and not all is done
};

// REQUIRES: as run_contended; `factor` as of play_lanes.  For some hundred op instances.
ContendedTimes play_contended(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                              const Traffic& traffic, const Interference& interference,
                              FactorOf factor = nullptr);

}  // namespace stepcast::oracle
