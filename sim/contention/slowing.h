// SPDX-License-Identifier: Apache-2.0
// Who slows whom.  Internal to the engines of contention.
//
// A rank computes slower while communication of its own is on, and communication is slower while
// any of its ranks computes.  Both are settled once a moment, after everything that happens at it,
// so that what begins where something else ends has nothing of it.
#pragma once

#include <cstdint>

namespace stepcast::contention {

// Settles one rank.  `communicates`: something of it is on.  Before its pace changes,
// advance(rank) counts what was done at the old one; a chain that runs then ends at another time
// (`restarted`).  busy_changed(by): so many more of the ranks of its communication compute, 1 or
// -1.
template <class Rank, class Advance, class BusyChanged>
void settle_pace(Rank& rank, bool communicates, const Advance& advance,
                 const BusyChanged& busy_changed) {
  if (communicates != rank.slow) {
    advance(rank);
    rank.slow = communicates;
    rank.restarted = true;
  }
  if (rank.runs != rank.busy) {
    rank.busy = rank.runs;
    busy_changed(rank.busy ? 1U : UINT32_MAX);
  }
}

}  // namespace stepcast::contention
