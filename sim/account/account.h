// SPDX-License-Identifier: Apache-2.0
// The timeline explained: what every picosecond of every role was spent on.
//
// A role's compute stream is either busy, which is booked by what the op is (spend_of), or standing
// still, which is booked to what ended it:
//
//   * the host, which had not launched the op yet: launch;
//   * a communication on another stream of the same rank: exposed_*, while it ran or queued;
//   * a rendezvous that was running: exposed_pp (or _dp, _other: by its axis); contention, as far
//     as it ran longer than alone;
//   * a rendezvous that had not started because a peer was late: what the peer did meanwhile, along
//     the chain of who waited for whom.  It computed, or stood in exposed communication of its own:
//     fill, imbalance or drain, by the phase of the role that WAITS; it was in a transfer:
//     exposed_pp; it was held up by its own blocking send: blocked.
//
// The items of each role sum to the makespan exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/run.h"
#include "sim/graph/spend.h"

namespace stepcast {

struct Account {
  std::vector<SpendTable> by_role;
  uint32_t critical_role = 0;  // with the least bubble and idle time: what the step is long for
};

// REQUIRES: `timeline` was recorded with Record::account or all from `program`.
Account make_account(const Program& program, const Timeline& timeline);

// Which part of the waits for other stages is due to stages that differ: what `levelled`, the
// account of the same step with every stage at the mean cost, does not have.  Moves time between
// fill, imbalance and drain; sums stay.  REQUIRES: equal roles.
void separate_imbalance(Account& account, const Account& levelled);

// One stretch of the longest chain of the step, latest last.  Consecutive stretches touch.
struct PathSegment {
  enum class Kind : uint8_t { role, rendezvous } kind = Kind::role;
  uint32_t role = 0;  // role: whose compute stream; rendezvous: the role that it delayed
  RendezvousId rendezvous{};
  Time begin{}, end{};
};

// From 0 to the makespan.
std::vector<PathSegment> critical_path(const Program& program, const Timeline& timeline);

}  // namespace stepcast
