// SPDX-License-Identifier: Apache-2.0
// The naive exact engine, for tests only: it plays an OpGraph moment by moment, as a machine would.
//
// It knows nothing of programs, leads, slots or recurrences.  There is a clock.  At each moment it
// asks every host and every stream of every role, again and again until nothing moves, whether it
// can do its next thing now; then the clock jumps to the next moment at which something is due.
// Slow, and hard to get wrong.  It shares no code with sim/: it only reads the plain structs.
//
// What the semantics at the top of sim/graph/op_graph.h come to:
//
//   Host.  One per role; walks the items, and inside a pass the ops, in order.  An op or a post
//   keeps it busy for the time of its launch; at the end of that time the op or post is handed to
//   its stream.  join, record, wait and sync are handed over at once and cost nothing.  The host
//   never waits, except: at `sync` until the stream has dealt with everything handed to it before;
//   at a join with `host_waits` until the rendezvous has ended (it does not wait for the stream).
//
//   Stream.  Six per role; each deals with what it was handed, in order, one thing at a time.
//     op      starts when it is the first in the queue and each of its waits is satisfied: the
//             end (from_start: the start) of the other op lies at least `delay` back.  It occupies
//             the stream for its duration.  A wait for an op on another stream is possible even
//             though that op is not yet handed over: it then has no end yet.  Waits reach no
//             further than their own run of the pass.
//     post    counts towards its rendezvous at once and occupies nothing.
//     join    holds the stream until the rendezvous has ended.
//     record  stamps the event with the moment the stream ran dry: the latest end of an op on it,
//             of a rendezvous joined by it, or stamp of an event waited for by it.  A second record
//             of the same event replaces the first for the waits after it in program order.
//     wait    holds the stream until the moment of the stamp; a wait for an event that no record
//             stands before does nothing.
//   A stream whose queue is empty is simply dry: passes do not end with a barrier, so an op of
//   the next pass may overtake an op of this one on another stream.
//
//   Rendezvous.  Starts the moment its last post counts, ends its price later, occupies no stream.
//
//   Host time is no stream time: a stream that was handed a join, a record or a wait late is dry
//   from the same moment as before.  So the end of a role is the latest moment one of its streams
//   ran dry; a rendezvous that nobody joins, and launches nobody needs, do not prolong the step.
//
// Deadlock is what the machine would do: nothing is due any more and not all is done.  A join holds
// only its stream, so later posts from other streams of the same role do count.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast::oracle {

struct RoleTimes {
  std::vector<Time> op_start;  // every op of every pass item, in program order
  std::vector<Time> op_end;
  Time first_start{};    // of its earliest op on any stream; 0 if it has none
  Time compute_begin{};  // of its first op on the compute stream; 0 if it has none
  Time compute_end{};    // when the compute stream ran dry for the last time
  Time end{};            // when the last of its streams did
};

struct RendezvousTimes {
  bool started = false;
  Time begin{}, end{};
  std::vector<Time> posts;      // moment of each post, in the order of `roles`
  std::vector<uint32_t> roles;  // who made it
};

struct Blocked {
  uint32_t role = 0, item = 0;  // the first join of the role, in program order, that cannot go on
  RendezvousId rendezvous{};
};

struct Times {
  std::vector<RoleTimes> roles;
  std::vector<RendezvousTimes> rendezvous;
  Time makespan{};               // latest end of a role
  int64_t ops = 0;               // op instances that ran
  std::vector<Blocked> blocked;  // empty unless the step deadlocks; by role
};

// REQUIRES: check_graph(graph) passes; one price for each work.  O(moments * (roles + rendezvous)
// * ops of a pass): for graphs of some hundred op instances.
Times play(const OpGraph& graph, const Prices& prices);

}  // namespace stepcast::oracle
