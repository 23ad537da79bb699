// SPDX-License-Identifier: Apache-2.0
// The engine: runs a Program and reports when everything ends.
//
// Each role's items are walked in program order until one needs a rendezvous that is not complete;
// then the next role goes on.  No queue, no events, no choice: the finish times are the unique
// solution of the recurrence in op_graph.h (timed event graphs in (max,+) algebra: Baccelli et al.,
// Synchronization and Linearity, 1992), so the order in which roles are visited cannot matter.
// Cost: about one addition and two maxima an instruction.
//
// One limit against CUDA: a role stands at every join, also at one of a side stream, until the
// rendezvous is complete; a post that follows such a join is made after it even if it comes from
// another stream.  Lowering therefore joins on the compute stream.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/program.h"
#include "sim/graph/spend.h"

namespace stepcast {

enum class Record : uint8_t {
  nothing,  // only the end of the step: for what-if questions and searches
  account,  // items and gaps: what the account and the critical path need
  all,      // also the start of every op (REQUIRES: an unmerged Program): traces
};

// A stretch in which the compute stream of a role stood still at an item, and why.
struct Gap {
  // straggler: the rendezvous could not start yet, for a slower lane of the same role (lanes.h).
  // contention: the communication behind the event took that much longer than alone
  // (contention.h).
  enum class Cause : uint8_t { rendezvous, event, straggler, contention };
  Time begin{}, end{};
  Cause cause = Cause::rendezvous;
  bool only_sends = false;  // rendezvous: as Item::only_sends
  uint32_t item = 0;        // index of the item
  uint32_t id = 0;          // of the rendezvous or event
};

struct ItemTime {
  Time begin{}, end{};  // of the compute stream across the item
};

struct RoleTimeline {
  Time compute_begin{};  // start of the first op on its compute stream; 0 if there is none
  Time compute_end{};    // end of its compute stream
  Time end{};            // end of its last stream
  Time first_backward = Time::max();  // begin of the first backward pass; max(): there is none
  Time last_forward{};                // end of the last forward pass
  std::vector<ItemTime> items;        // Record::account
  std::vector<Gap> gaps;              // Record::account; at items, in order of time
  SpendTable inside{};  // Record::account; stand-stills inside passes, by what they waited for
  std::vector<Time> op_start;  // Record::all; every op of every pass item, in program order
  std::vector<Time> op_end;    // as op_start; empty: start + price

  // The next item: the compute stream was at `from` before it, and at `until` after it.
  void add_item(const Item& item, Time from, Time until);
  // The compute stream stood still in [from, until) at item number `index`; nothing if that is
  // empty.
  void add_gap(const Item& item, uint32_t index, Time from, Time until, Gap::Cause cause);
};

inline void RoleTimeline::add_item(const Item& item, Time from, Time until) {
  items.push_back({from, until});
  if (item.kind != ItemKind::pass || !item.has_action) return;
  if (item.action.kind == ActionKind::forward) last_forward = until;
  const ActionKind last = item.has_second ? item.second.kind : item.action.kind;
  const bool backward = last == ActionKind::backward || last == ActionKind::backward_input;
  if (backward && first_backward == Time::max()) first_backward = from;
}

inline void RoleTimeline::add_gap(const Item& item, uint32_t index, Time from, Time until,
                                  Gap::Cause cause) {
  if (from >= until) return;
  const uint32_t id =
      item.kind == ItemKind::join ? static_cast<uint32_t>(item.rendezvous) : item.event;
  gaps.push_back({from, until, cause, item.only_sends, index, id});
}

struct RendezvousTime {
  Time begin{}, end{};
  uint32_t last_role = 0;  // the role whose post let it start
  uint32_t last_item = 0;  // ... and which item of it that was
  Time contended{};        // how much longer it took than alone (contention.h)
};

struct Timeline {
  Time makespan{};       // end of the last role
  Time span{};           // max over roles of (last end - first start)
  int64_t rank_ops = 0;  // device ops executed, one lane a role
  std::vector<RoleTimeline> roles;
  std::vector<RendezvousTime> rendezvous;  // Record::account
};

// Thrown when roles wait for each other in a cycle; `waiting` names role, item and rendezvous of
// each.
struct Deadlock : std::exception {
  struct Waiting {
    uint32_t role = 0, item = 0;
    RendezvousId rendezvous{};
  };
  std::vector<Waiting> waiting;
  const char* what() const noexcept override { return "the step deadlocks"; }
};

// Throws Deadlock.  O(instructions of all items).
Timeline run(const Program& program, Record record = Record::account);

}  // namespace stepcast
