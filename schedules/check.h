// SPDX-License-Identifier: Apache-2.0
// Proves a schedule complete and free of deadlock, or says why not.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast {

struct ScheduleProblem {
  enum class Kind : uint8_t {
    missing,
    duplicate,
    misplaced,
    order,
    pair,
    deadlock,
    stall
  } kind = Kind::missing;
  static constexpr uint32_t kNoPosition = std::numeric_limits<uint32_t>::max();

  std::string message;  // one line
  uint16_t rank = 0;
  // Index in the rank's list of the action at fault; if something is missing, of one that needs it.
  uint32_t position = kNoPosition;
  std::vector<std::string>
      cycle;  // deadlock: "stage 0 at `0B0` waits for `1B0`", one entry a rank of the cycle
};

// Every stage and microbatch has one F and either one B or one I and one W, on the rank that holds
// the stage, and at most one of R, O and L; on that rank F < O < L < R < (B or I) < W, and of the
// sequence splits of a microbatch F runs upwards, B or I downwards; a pair is a forward and a B or
// I behind it, of different microbatches.  And executing the lists in order never gets stuck, if F
// of stage s needs F of s-1, B or I of stage s needs B or I of s+1, and a pair starts when both
// halves may.  With S, T, E or G every rank has all four for every microbatch, S < T and E < G, and
// they wait as vocabulary_need() says.  At most `limit` problems (and at least one, if there is
// any).  O(actions).
std::vector<ScheduleProblem> check_schedule(const Schedule& schedule, size_t limit = 20);

// What would stall if a rank received each message no earlier than where its list needs it, and all
// messages from one rank to another were one FIFO of rendezvous: messages that are needed in
// another order than they are sent in.  Not an error: with messages matched by name, or receives
// posted ahead, such a schedule runs.  At most one for each pair of ranks and `limit` in all, kind
// `stall`, `position` on the receiving rank.  REQUIRES: check_schedule(schedule) is empty.
// O(actions).
std::vector<ScheduleProblem> check_rendezvous(const Schedule& schedule, size_t limit = 20);

}  // namespace stepcast
